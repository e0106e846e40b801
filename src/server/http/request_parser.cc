#include "server/http/request_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace butterfly::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view view(string_view text) { return {text.data(), text.size()}; }

std::string lower(string_view text) {
  std::string out(text.data(), text.size());
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string chunk_line_words(const HttpLimits& limits) {
  return "a chunk's length line or the trailers are longer than " + std::to_string(limits.chunk_line_bytes) +
         " bytes";
}

// Collects what the library's parser finds.
class Collector : public http::basic_parser<true> {
 public:
  explicit Collector(const HttpLimits& limits) : limits_(limits) {
    header_limit(static_cast<uint32_t>(limits.head_bytes));
    body_limit(limits.body_bytes);
    eager(false);  // put() comes back at the end of the head
  }

  HttpRequest request;
  std::optional<RequestParser::Failure> failure;

  void fail(int status, std::string words, error_code& ec) {
    failure = {status, std::move(words)};
    ec = http::error::bad_value;
  }

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code& ec) override {
    if (version != 11 && version != 10) return fail(505, "only HTTP/1.1 and 1.0 are spoken here", ec);
    request.method = std::string(view(method));
    request.chunks = version == 11;
    std::string_view rest = view(target);
    // A full address ("GET http://host/path") is for proxies.
    if (rest.empty() || (rest.front() != '/' && rest != "*"))
      return fail(400, "the target must be a path", ec);
    const size_t question = rest.find('?');
    if (question != std::string_view::npos) request.query = std::string(rest.substr(question + 1));
    if (!percent_decode(rest.substr(0, question), request.path))
      return fail(400, "the path is not percent-encoded UTF-8", ec);
  }

  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override {
    if (request.fields.size() >= limits_.field_count)
      return fail(431, "more than " + std::to_string(limits_.field_count) + " header fields", ec);
    request.fields.emplace_back(lower(name), std::string(view(value)));
  }

  void on_header_impl(error_code& ec) override {
    request.keep_alive = keep_alive();
    const std::string* expect = request.field("expect");
    request.expects_continue = expect != nullptr && lower(*expect) == "100-continue";
    // Two proxies that read different hosts or lengths can be played against each other.
    for (const char* once : {"host", "content-length", "transfer-encoding", "authorization", "origin"})
      if (request.count(once) > 1) return fail(400, std::string("the header has two fields ") + once, ec);
    const std::string* coding = request.field("transfer-encoding");
    if (coding != nullptr && lower(*coding) != "chunked")
      fail(501, "the only transfer coding is chunked", ec);
  }

  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}

  size_t on_body_impl(string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  void on_chunk_header_impl(uint64_t size, string_view extension, error_code& ec) override {
    if (extension.size() > limits_.chunk_line_bytes) return fail(400, chunk_line_words(limits_), ec);
    if (size > limits_.body_bytes || request.body.size() + size > limits_.body_bytes)
      ec = http::error::body_limit;
  }

  size_t on_chunk_body_impl(uint64_t, string_view body, error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }

  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}

  const HttpLimits limits_;
};

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const HttpLimits& l) : limits(l), parser(l) {}

  void failed(const error_code& ec) {
    state = State::kFailed;
    if (parser.failure) return;
    if (ec == http::error::body_limit)
      parser.failure = {413, "the body is larger than " + std::to_string(limits.body_bytes) + " bytes"};
    else if (ec == http::error::header_limit)
      parser.failure = {431, "the head is larger than " + std::to_string(limits.head_bytes) + " bytes"};
    else
      parser.failure = {400, "this is not HTTP/1.1: " + ec.message()};
  }

  void failed_line() {
    state = State::kFailed;
    parser.failure = {400, chunk_line_words(limits)};
  }

  HttpLimits limits;
  Collector parser;
  State state = State::kHead;
};

RequestParser::RequestParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

RequestParser::State RequestParser::feed(std::string& buffer) {
  Impl& impl = *impl_;
  const bool in_head = impl.state == State::kHead;
  size_t used = 0;
  // A TLS handshake has no line that could end: whoever came to the wrong port hears it now.
  constexpr char kHandshakeRecord = 0x16;
  if (impl.state == State::kHead && !buffer.empty() && buffer.front() == kHandshakeRecord) {
    impl.parser.failure = {400,
                           "this is an HTTP port, and TLS was spoken: use http://, or for 'butterfly "
                           "join' the cluster's port"};
    impl.state = State::kFailed;
  }
  while (impl.state != State::kFailed && !impl.parser.is_done()) {
    if (in_head && impl.parser.is_header_done()) break;
    error_code ec;
    const size_t n =
        impl.parser.put(boost::asio::const_buffer(buffer.data() + used, buffer.size() - used), ec);
    used += n;
    if (ec == http::error::need_more) {
      // The library counts only whole lines: a line without end counts here. In a body what is left is the
      // line between two chunks, or the fields behind the last: their content was taken.
      if (in_head && buffer.size() - used > impl.limits.head_bytes) impl.failed(http::error::header_limit);
      if (!in_head && buffer.size() - used > impl.limits.chunk_line_bytes) impl.failed_line();
      break;
    }
    if (ec) {
      impl.failed(ec);
    } else if (n == 0 && !impl.parser.is_done() && !(in_head && impl.parser.is_header_done())) {
      break;
    }
  }
  buffer.erase(0, used);
  if (impl.state != State::kFailed) {
    impl.state = impl.parser.is_done()          ? State::kDone
                 : impl.parser.is_header_done() ? State::kBody
                                                : State::kHead;
  }
  return impl.state;
}

RequestParser::State RequestParser::state() const { return impl_->state; }
const RequestParser::Failure& RequestParser::failure() const { return *impl_->parser.failure; }
HttpRequest& RequestParser::request() { return impl_->parser.request; }

std::optional<uint64_t> RequestParser::body_length() const {
  const auto length = impl_->parser.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

}  // namespace butterfly::server
