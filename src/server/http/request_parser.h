// Bytes of a connection to requests, with limits. Boost.Beast's parser stands behind it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/limits.h"

namespace butterfly::server {

// Where bodies of a request go that are too long for memory, and how long they may be.
struct LargeBody {
  uint64_t bytes_max = 0;
  std::filesystem::path folder;
};
// By the head of a request; nothing: its body stays in memory and within the limits.
using LargeBodyFor = std::function<std::optional<LargeBody>(const HttpRequest& head)>;

// Reads one request. After a failure the rest of the connection cannot be understood: answer and close it.
//
// The body grows as its bytes come: a promised length costs nothing. One thread.
class RequestParser {
 public:
  enum class State {
    kHead,  // not all of the head has come
    kBody,  // the head is there: request() has everything but the body
    kDone,
    kFailed,  // failure() says how
  };
  struct Failure {
    int status;
    std::string words;
  };

  // `large` may be null.
  explicit RequestParser(const HttpLimits& limits, const LargeBodyFor& large = nullptr);
  ~RequestParser();

  // Takes bytes from the front of `buffer`, which keeps what it did not take: the beginning of a line, or of
  // the next request. Stops once at the end of the head, so that the caller can refuse before the body.
  State feed(std::string& buffer);

  State state() const;
  const Failure& failure() const;
  HttpRequest& request();
  // As the head promised it; empty for chunked bodies.
  std::optional<uint64_t> body_length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly::server
