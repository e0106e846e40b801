#include "cli/download/http_get.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>

#include "cli/download/byte_stream.h"

namespace butterfly::cli {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::buffer_body>;

constexpr size_t kRedirectsMax = 8;
constexpr uint32_t kHeaderBytesMax = 64 << 10;
constexpr size_t kBlock = 256 << 10;

// What Beast reads from. The status of a failed read is kept beside its error code.
struct BeastStream {
  ByteStream& stream;
  Status status;

  template <typename Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    const auto first = *boost::asio::buffer_sequence_begin(buffers);
    Result<size_t> n = stream.read({static_cast<char*>(first.data()), first.size()});
    if (n && *n > 0) {
      error = {};
      return *n;
    }
    if (!n) status = n.status();
    error = n ? boost::system::error_code(boost::asio::error::eof)
              : boost::system::error_code(boost::asio::error::connection_reset);
    return 0;
  }
  template <typename Buffers>
  size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    return read_some(buffers, error);
  }
};

std::map<std::string, std::string> headers_of(const Parser& parser) {
  std::map<std::string, std::string> headers;
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    headers.emplace(std::move(name), std::string(field.value()));
  }
  return headers;
}

std::string request_text(const Url& url, const HttpGetOptions& options, bool with_token) {
  const std::string host = url.port == (url.tls ? "443" : "80") ? url.host : url.authority();
  std::string text = fmt::format(
      "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: butterfly\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
      "Connection: close\r\n",
      options.method, url.target, host);
  if (with_token) text += fmt::format("Authorization: Bearer {}\r\n", options.token);
  if (options.from > 0) text += fmt::format("Range: bytes={}-\r\n", options.from);
  return text + "\r\n";
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// "bytes 100-199/200": where the body begins. kCorrupt for an answer to another question.
Result<uint64_t> range_begin(const HttpHead& head, uint64_t asked) {
  if (head.status != 206) return uint64_t{0};
  if (head.header("content-range").starts_with(fmt::format("bytes {}-", asked))) return asked;
  return Status(Errc::kCorrupt, fmt::format("{}: asked for bytes from {}, was sent '{:.100}'",
                                            head.url.text(), asked, head.header("content-range")));
}

Status broken(BeastStream& stream, const Url& url, const boost::system::error_code& error) {
  if (!stream.status) return stream.status;
  if (error == boost::asio::error::eof || error == http::error::partial_message ||
      error == http::error::end_of_stream)
    return {Errc::kPeerLost, fmt::format("{}: ended in the middle", url.authority())};
  return {Errc::kCorrupt, fmt::format("{}: does not speak HTTP: {}", url.authority(), error.message())};
}

Status read_body(BeastStream& stream, boost::beast::flat_buffer& buffer, Parser& parser, const Url& url,
                 const HttpSink& sink) {
  std::vector<char> block(kBlock);
  while (!parser.is_done()) {
    parser.get().body().data = block.data();
    parser.get().body().size = block.size();
    boost::system::error_code error;
    http::read_some(stream, buffer, parser, error);
    const size_t got = block.size() - parser.get().body().size;
    if (got > 0) sink.on_bytes({block.data(), got});
    if (error && error != http::error::need_buffer) return broken(stream, url, error);
  }
  return {};
}

}  // namespace

std::string HttpHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}
std::string HttpHead::first_header(const std::string& name) const {
  const auto found = first_headers.find(name);
  return found == first_headers.end() ? "" : found->second;
}

Status http_get(const Url& url, const HttpGetOptions& options, const HttpSink& sink) {
  HttpHead head;
  head.url = url;
  for (size_t hops = 0;; ++hops) {
    if (hops > kRedirectsMax)
      return {Errc::kInvalidArgument, fmt::format("{}: more than {} redirects", url.text(), kRedirectsMax)};
    // Never in the clear over a network, and never to those to whom it redirects.
    const bool with_token =
        !options.token.empty() && head.url.same_place(url) && (url.tls || url.on_loopback());
    Result<std::unique_ptr<ByteStream>> stream = open_stream(head.url, options.patience);
    if (!stream) return stream.status();
    if (Status sent = (*stream)->write(request_text(head.url, options, with_token)); !sent) return sent;
    BeastStream reading{**stream, {}};
    boost::beast::flat_buffer buffer(2 * kBlock);
    Parser parser;
    parser.header_limit(kHeaderBytesMax);
    parser.body_limit(boost::none);
    if (options.method == "HEAD") parser.skip(true);
    boost::system::error_code error;
    http::read_header(reading, buffer, parser, error);
    if (error) return broken(reading, head.url, error);
    head.status = static_cast<int>(parser.get().result_int());
    head.headers = headers_of(parser);
    if (hops == 0) head.first_headers = head.headers;
    if (options.follow && is_redirect(head.status)) {
      Result<Url> next = redirected(head.url, head.header("location"));
      if (!next) return next.status();
      head.url = std::move(*next);
      continue;
    }
    head.length = parser.content_length() ? std::optional<uint64_t>(*parser.content_length()) : std::nullopt;
    Result<uint64_t> from = range_begin(head, options.from);
    if (!from) return from.status();
    head.from = *from;
    if (!sink.on_head(head)) return {};
    return read_body(reading, buffer, parser, head.url, sink);
  }
}

Result<HttpText> http_text(const Url& url, const HttpGetOptions& options, size_t bytes_max) {
  HttpText text;
  struct TooLong {};
  try {
    Status status = http_get(url, options,
                             {.on_head =
                                  [&](const HttpHead& head) {
                                    text.head = head;
                                    return options.method != "HEAD";
                                  },
                              .on_bytes =
                                  [&](std::span<const char> bytes) {
                                    if (text.body.size() + bytes.size() > bytes_max) throw TooLong();
                                    text.body.append(bytes.data(), bytes.size());
                                  }});
    if (!status) return status;
  } catch (const TooLong&) {
    return Status(Errc::kOutOfMemory,
                  fmt::format("{}: the answer is longer than {} bytes", url.text(), bytes_max));
  }
  return text;
}

}  // namespace butterfly::cli
