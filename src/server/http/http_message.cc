#include "server/http/http_message.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace butterfly::server {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

const std::string* HttpRequest::field(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return &value;
  return nullptr;
}

size_t HttpRequest::count(std::string_view name) const {
  size_t count = 0;
  for (const auto& [key, value] : fields) count += key == name;
  return count;
}

bool HttpRequest::promises_body() const {
  const std::string* length = field("content-length");
  return field("transfer-encoding") != nullptr || (length != nullptr && *length != "0");
}

std::string_view status_words(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string response_head(const HttpResponse& response, const HeadOptions& options) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, status_words(response.status));
  if (!response.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (options.framing == Framing::kLength) {
    head += fmt::format("Content-Length: {}\r\n", response.body.size());
  } else {
    if (options.framing == Framing::kChunks) head += "Transfer-Encoding: chunked\r\n";
    head += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";  // proxies: pass pieces on as they come
  }
  for (const auto& [name, value] : response.fields) head += fmt::format("{}: {}\r\n", name, value);
  // Answers hold text of models and users: a browser must not guess a type and run it.
  head += "X-Content-Type-Options: nosniff\r\n";
  head += options.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk(std::string_view bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

bool percent_decode(std::string_view text, std::string& to) {
  to.clear();
  to.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      to += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0 || high * 16 + low == 0) return false;
    to += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return utf8_replace_invalid(to) == to;
}

}  // namespace butterfly::server
