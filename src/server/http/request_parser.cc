#include "server/http/request_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "base/error.h"

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

constexpr size_t kBelievedBytes = size_t{64} << 10;

// Collects what the library's parser finds.
class Collector : public http::basic_parser<true> {
 public:
  Collector(const HttpLimits& limits, const LargeBodyFor& large)
      : limits_(limits), large_for_(large), body_max_(limits.body_bytes) {
    header_limit(static_cast<uint32_t>(limits.head_bytes));
    body_limit(boost::none);  // ours depends on the head, see body_max()
    eager(false);             // put() comes back at the end of the head
  }

  HttpRequest request;
  std::optional<RequestParser::Failure> failure;
  uint64_t body_max() const { return body_max_; }

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
      return fail(501, "the only transfer coding is chunked", ec);
    if (large_for_) large_ = large_for_(request);
    if (large_) body_max_ = std::max<uint64_t>(body_max_, large_->bytes_max);
    if (const auto length = content_length(); length && *length > body_max_) ec = http::error::body_limit;
  }

  // Into memory as far as that goes.
  size_t take(string_view bytes, error_code& ec) {
    if (request.body_file == nullptr && request.body.size() + bytes.size() <= limits_.body_bytes) {
      // Who has sent so much is believed how long it is: a body that grew by doubling would be copied, and
      // its memory fetched anew, while all others wait.
      if (const auto length = content_length(); length && request.body.size() > kBelievedBytes)
        request.body.reserve(std::min<uint64_t>(*length, limits_.body_bytes));
      request.body.append(bytes.data(), bytes.size());
      return bytes.size();
    }
    try {
      if (!large_ || body_bytes() + bytes.size() > body_max_) {
        ec = http::error::body_limit;
        return 0;
      }
      if (request.body_file == nullptr) {
        request.body_file = std::make_shared<BodyFile>(large_->folder);
        request.body_file->append(request.body);
        request.body = {};
      }
      request.body_file->append(view(bytes));
    } catch (const Error& error) {
      fail(503, error.what(), ec);
    }
    return bytes.size();
  }
  uint64_t body_bytes() const {
    return request.body_file != nullptr ? request.body_file->size() : request.body.size();
  }

  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}

  size_t on_body_impl(string_view body, error_code& ec) override { return take(body, ec); }

  void on_chunk_header_impl(uint64_t size, string_view extension, error_code& ec) override {
    if (extension.size() > limits_.chunk_line_bytes) return fail(400, chunk_line_words(limits_), ec);
    if (size > body_max_ || body_bytes() + size > body_max_) ec = http::error::body_limit;
  }

  size_t on_chunk_body_impl(uint64_t, string_view body, error_code& ec) override { return take(body, ec); }

  void on_finish_impl(error_code& ec) override {
    if (request.body_file == nullptr) return;
    try {
      request.body_file->finish();
    } catch (const Error& error) {
      fail(503, error.what(), ec);
    }
  }
  void on_response_impl(int, string_view, int, error_code&) override {}

  const HttpLimits limits_;
  const LargeBodyFor large_for_;
  std::optional<LargeBody> large_;
  uint64_t body_max_;
};

}  // namespace

struct RequestParser::Impl {
  Impl(const HttpLimits& l, const LargeBodyFor& large) : limits(l), parser(l, large) {}

  void failed(const error_code& ec) {
    state = State::kFailed;
    if (parser.failure) return;
    if (ec == http::error::body_limit)
      parser.failure = {413, "the body is larger than " + std::to_string(parser.body_max()) + " bytes"};
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

RequestParser::RequestParser(const HttpLimits& limits, const LargeBodyFor& large)
    : impl_(std::make_unique<Impl>(limits, large)) {}
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
    // What may be the last line of a body in chunks is read with what ends it: told of less, a library with
    // assertions (Boost 1.81) ends the process. The shortest end is "0\r\n\r\n".
    constexpr size_t kShortestEnd = 5;
    if (!in_head && impl.parser.chunked() && buffer.size() - used < kShortestEnd && used < buffer.size() &&
        buffer[used] == '0')
      break;
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
