// Requests and answers of HTTP/1.1, without the library that reads them.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/body_file.h"

namespace butterfly::server {

struct HttpRequest {
  std::string method;                                       // "GET"
  std::string path;                                         // decoded, without the query: "/v1/models"
  std::string query;                                        // as it came, without '?'
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, in the order they came
  std::string body;
  std::shared_ptr<BodyFile> body_file;  // instead of `body`, where it was too long for memory
  bool keep_alive = true;
  bool chunks = true;  // the client understands bodies in chunks: HTTP/1.1
  bool expects_continue = false;

  // The first field of this name (lower case), or null.
  const std::string* field(std::string_view name) const;
  size_t count(std::string_view name) const;
  // The body, wherever it is.
  std::string_view content() const { return body_file != nullptr ? body_file->view() : body; }
  // The head says that a body follows.
  bool promises_body() const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;  // others than length, type and connection
  bool close = false;                                       // the connection ends after it
};

std::string_view status_words(int status);  // "Not Found"

enum class Framing { kLength, kChunks, kUntilClose };

// Status line and fields, with the empty line that ends them.
struct HeadOptions {
  Framing framing = Framing::kLength;
  bool keep_alive = true;
};
std::string response_head(const HttpResponse& response, const HeadOptions& options);

// One chunk of a chunked body; "" makes the last one.
std::string chunk(std::string_view bytes);

// "%41" -> "A". False for what is not a code, for NUL, and for bytes that are not UTF-8.
bool percent_decode(std::string_view text, std::string& to);

}  // namespace butterfly::server
