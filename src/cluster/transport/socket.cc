#include "cluster/transport/socket.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "cluster/transport/resolver.h"

namespace butterfly::cluster {
namespace {

constexpr int kBacklog = 64;

constexpr Duration kOwnAddressMax = std::chrono::seconds(10);  // to look up where to listen

Result<AddressList> look_up(const std::string& address, int flags, const Deadline& deadline) {
  const auto parts = split_address(address);
  if (!parts) return parts.status();
  return Resolver::instance().resolve(parts->host, parts->port, flags, SOCK_STREAM, deadline);
}

Socket new_socket(const addrinfo& address) {
  return Socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

void set_option(const Socket& socket, int level, int name, int value) {
  (void)::setsockopt(socket.fd(), level, name, &value, sizeof value);  // all of them improve, none is needed
}

std::string text_of(const sockaddr_storage& address, socklen_t size, bool with_port) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  if (!with_port) return host;
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                       : fmt::format("{}:{}", host, port);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Result<HostPort> split_address(std::string_view address) {
  const Status bad(Errc::kInvalidArgument,
                   fmt::format("'{}': expected host:port, as in 192.168.1.7:4711", address));
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad;
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find_first_of(":[]") != std::string_view::npos)
    return bad;
  const bool digits = std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (port.empty() || port.size() > 5 || !digits || std::stoi(std::string(port)) > 65535) return bad;
  return HostPort{std::string(host), std::string(port)};
}

Result<Socket> connect_socket(const std::string& address, const Deadline& deadline) {
  const auto list = look_up(address, 0, deadline);
  if (!list) return list.status();
  Status last(Errc::kPeerLost, fmt::format("{}: has no address", address));
  for (const addrinfo* at = list->get(); at != nullptr; at = at->ai_next) {
    Socket socket = new_socket(*at);
    if (socket.fd() < 0) return {Errc::kIo, fmt::format("{}: no socket: {}", address, std::strerror(errno))};
    int error = ::connect(socket.fd(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!wait_ready(socket.fd(), POLLOUT, deadline))
        return {Errc::kTimeout, fmt::format("{}: did not answer", address)};
      socklen_t size = sizeof error;
      if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0) return socket;
    last = {Errc::kPeerLost, fmt::format("{}: {}", address, std::strerror(error))};
  }
  return last;
}

Result<ListeningSocket> listen_socket(const std::string& address) {
  const auto list = look_up(address, AI_PASSIVE, Deadline(SystemClock::instance(), kOwnAddressMax));
  if (!list) return list.status();
  const auto refused = [&](const char* what) {
    return Status(Errc::kIo, fmt::format("{}: cannot {}: {}", address, what, std::strerror(errno)));
  };
  const addrinfo& first = **list;
  Socket socket = new_socket(first);
  if (socket.fd() < 0) return refused("make a socket");
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (first.ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.fd(), first.ai_addr, first.ai_addrlen) != 0) return refused("use this address");
  if (::listen(socket.fd(), kBacklog) != 0) return refused("listen");
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return refused("listen");
  return ListeningSocket{std::move(socket), text_of(bound, size, true)};
}

void set_stream_options(const Socket& socket, Duration user_timeout) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(user_timeout).count();
  const int seconds = std::max(1, static_cast<int>(milliseconds / 1000));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(milliseconds));
  // Silence is probed three times within the same time.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool wait_ready(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    if (::poll(&entry, 1, poll_milliseconds(deadline)) > 0) return true;
    if (deadline.expired()) return false;
  }
}

int poll_milliseconds(const Deadline& deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
  return static_cast<int>(std::min<int64_t>(left.count(), 24 * 3600 * 1000));
}

std::string peer_host(const Socket& socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "unknown";
  return text_of(peer, size, false);
}

}  // namespace butterfly::cluster
