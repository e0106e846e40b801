// One file over HTTP, from any byte on: redirects are followed, the token goes to the server it is for and to
// no other.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/download/url.h"

namespace butterfly::cli {

struct HttpGetOptions {
  std::string method = "GET";
  std::string token;   // as Authorization: Bearer
  uint64_t from = 0;   // first byte wanted
  bool follow = true;  // redirects, at most 8; false: the redirect is the answer
  Duration patience = std::chrono::seconds(30);
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::optional<uint64_t> length;              // of the body that follows
  uint64_t from = 0;                           // where in the file that body begins
  Url url;                                     // that answered
  // The server's word for whom it redirected to, of the first answer: the hub has the hash of large files
  // here.
  std::map<std::string, std::string> first_headers;

  std::string header(const std::string& name) const;
  std::string first_header(const std::string& name) const;
};

// Called with the head (false: no body wanted), then with the bytes as they come (throws to stop).
struct HttpSink {
  std::function<bool(const HttpHead&)> on_head;
  std::function<void(std::span<const char>)> on_bytes;
};

// kPeerLost and kTimeout: trying again may help, from where it stopped. Everything else: not. A body that is
// shorter than its length is kPeerLost. The status code is the caller's to judge.
Status http_get(const Url& url, const HttpGetOptions& options, const HttpSink& sink);

// A small file, whole. kOutOfMemory beyond `bytes_max`.
struct HttpText {
  HttpHead head;
  std::string body;
};
Result<HttpText> http_text(const Url& url, const HttpGetOptions& options, size_t bytes_max);

}  // namespace butterfly::cli
