// A plain HTTP client for tests: sends any bytes, reads what comes, never waits longer than told.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace butterfly::server::testing {

struct Reply {
  int status = 0;                             // 0: the connection ended without an answer
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;                           // without the framing of chunks
};

// One connection, closed by the destructor. One thread.
class Client {
 public:
  explicit Client(uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view bytes);
  // The next answer. Waits at most `time` for each piece.
  Reply read(std::chrono::milliseconds time = std::chrono::seconds(60));
  // Bytes as they come, until `until` is among them, the end, or the time is over.
  std::string read_until(std::string_view until, std::chrono::milliseconds time = std::chrono::seconds(60));
  // True if the other side has closed.
  bool closed(std::chrono::milliseconds time = std::chrono::seconds(10));
  int fd() const { return fd_; }

 private:
  bool fill(std::chrono::milliseconds time);
  int fd_ = -1;
  std::string held_;
};

std::string request_text(std::string_view method, std::string_view path, std::string_view body = {},
                         std::string_view more_fields = {});
// One request on a connection of its own.
Reply ask(uint16_t port, std::string_view method, std::string_view path, std::string_view body = {},
          std::string_view more_fields = {});

}  // namespace butterfly::server::testing
