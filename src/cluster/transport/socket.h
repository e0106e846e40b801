// Sockets that never block: made, connected and waited for under deadlines.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace butterfly::cluster {

// Owns a file descriptor. Who may use it in which thread is the owner's business.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};
// "host:4711", "10.0.0.7:4711" or "[fe80::1]:4711". kInvalidArgument, in words.
Result<HostPort> split_address(std::string_view address);

// A TCP connection, tried at each of the host's addresses in turn; the lookup of its name included, all ends
// at the deadline.
Result<Socket> connect_socket(const std::string& address, const Deadline& deadline);

struct ListeningSocket {
  Socket socket;
  std::string address;  // with the port that was chosen for port 0
};
Result<ListeningSocket> listen_socket(const std::string& address);

// No delay for small messages; peers that are gone are noticed after `user_timeout`, also while nothing is
// sent.
void set_stream_options(const Socket& socket, Duration user_timeout);

// poll() for one socket: true when ready (also for errors, which the next call shows), false at the deadline.
bool wait_ready(int fd, short events, const Deadline& deadline);

// For poll(): rounded up, so that nobody wakes before the deadline and turns in circles; at most a day.
int poll_milliseconds(const Deadline& deadline);

// The other end's address without its port; "unknown" when the system does not say.
std::string peer_host(const Socket& socket);

}  // namespace butterfly::cluster
