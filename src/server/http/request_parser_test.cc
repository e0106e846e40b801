#include "server/http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include "base/testing/temp_dir.h"

namespace butterfly::server {
namespace {

using State = RequestParser::State;
using ::testing::HasSubstr;

// Feeds the text in pieces of `step` bytes; what the parser did not take stays in `rest`.
State feed_in_steps(RequestParser& parser, std::string_view text, size_t step, std::string* rest = nullptr) {
  std::string buffer;
  State state = State::kHead;
  for (size_t i = 0; i < text.size() && state != State::kDone && state != State::kFailed; i += step) {
    buffer += text.substr(i, step);
    state = parser.feed(buffer);
    if (state == State::kBody) state = parser.feed(buffer);
    if (rest != nullptr) *rest = buffer + std::string(text.substr(std::min(text.size(), i + step)));
  }
  return state;
}

constexpr std::string_view kPost =
    "POST /v1/a%20b?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-LENGTH: 5\r\nX-Y:  z \r\n\r\nhelloGET /";

TEST(RequestParser, ReadsARequestInAnyPieces) {
  for (size_t step = 1; step <= kPost.size(); ++step) {
    RequestParser parser({});
    std::string rest;
    ASSERT_EQ(feed_in_steps(parser, kPost, step, &rest), State::kDone) << step;
    const HttpRequest& request = parser.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/a b");
    EXPECT_EQ(request.query, "x=1");
    EXPECT_EQ(request.body, "hello");
    ASSERT_NE(request.field("x-y"), nullptr);
    EXPECT_EQ(*request.field("x-y"), "z");
    EXPECT_EQ(rest, "GET /") << step;
  }
}

TEST(RequestParser, StopsAtTheEndOfTheHead) {
  RequestParser parser({});
  std::string buffer(kPost);
  EXPECT_EQ(parser.feed(buffer), State::kBody);
  EXPECT_EQ(buffer, "helloGET /");
  EXPECT_EQ(parser.body_length(), 5u);
  EXPECT_EQ(parser.feed(buffer), State::kDone);
}

// Beyond what memory is given for, into a file, in any framing; and no further than was allowed.
TEST(RequestParser, LargeBodiesGoToAFile) {
  const butterfly::testing::TempDir folder;
  HttpLimits limits;
  limits.body_bytes = 100;
  const LargeBodyFor large = [&](const HttpRequest& head) -> std::optional<LargeBody> {
    if (head.path != "/file") return std::nullopt;
    return LargeBody{1000, folder.path()};
  };
  std::string body;
  while (body.size() < 1000) body += std::to_string(body.size()) + " ";
  body.resize(1000);
  const auto read = [&](std::string_view path, std::string_view content, bool chunked, size_t piece) {
    std::string text = "POST " + std::string(path) + " HTTP/1.1\r\n";
    if (chunked) {
      text += "Transfer-Encoding: chunked\r\n\r\n";
      for (size_t at = 0; at < content.size(); at += 90) text += chunk(content.substr(at, 90));
      text += chunk("");
    } else {
      text += "Content-Length: " + std::to_string(content.size()) + "\r\n\r\n" + std::string(content);
    }
    auto parser = std::make_unique<RequestParser>(limits, large);
    std::string buffer;
    for (size_t at = 0; at < text.size() && parser->state() != RequestParser::State::kFailed; at += piece) {
      buffer += text.substr(at, piece);
      for (auto before = RequestParser::State::kFailed; before != parser->state();) {
        before = parser->state();
        parser->feed(buffer);
      }
    }
    return parser;
  };
  for (const bool chunked : {false, true}) {
    for (const size_t piece : {1, 7, 99, 4096}) {
      const auto whole = read("/file", body, chunked, piece);
      ASSERT_EQ(whole->state(), RequestParser::State::kDone) << piece;
      EXPECT_NE(whole->request().body_file, nullptr);
      EXPECT_TRUE(whole->request().body.empty());
      EXPECT_EQ(whole->request().content(), body);
      const auto small = read("/file", body.substr(0, 100), chunked, piece);
      EXPECT_EQ(small->request().body_file, nullptr) << "what fits stays in memory";
      EXPECT_EQ(small->request().content(), body.substr(0, 100));
      for (const auto& [path, bytes] : {std::pair("/file", body + "x"), {"/other", body.substr(0, 101)}}) {
        const auto refused = read(path, bytes, chunked, piece);
        ASSERT_EQ(refused->state(), RequestParser::State::kFailed) << path;
        EXPECT_EQ(refused->failure().status, 413);
      }
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "its file has no name";
  const auto nowhere = [&] {
    RequestParser parser(limits, [](const HttpRequest&) { return LargeBody{1000, "/nowhere/at/all"}; });
    std::string buffer = "POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + body;
    parser.feed(buffer);
    parser.feed(buffer);
    return parser.failure();
  }();
  EXPECT_EQ(nowhere.status, 503);
}

// Where assertions of the library are on, one of them does not hold for a body of no chunks in small pieces.
TEST(RequestParser, NoChunksInAnyPieces) {
  for (const std::string_view end : {"0\r\n\r\n", "00\r\nA: b\r\n\r\n"})
    for (size_t step = 1; step <= 8; ++step) {
      const std::string text =
          "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(end) + "GET /";
      RequestParser parser({});
      std::string rest;
      ASSERT_EQ(feed_in_steps(parser, text, step, &rest), State::kDone) << step;
      EXPECT_EQ(parser.request().body, "");
      EXPECT_EQ(rest, "GET /") << step;
    }
}

TEST(RequestParser, Chunks) {
  RequestParser parser({});
  EXPECT_EQ(
      feed_in_steps(
          parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 1),
      State::kDone);
  EXPECT_EQ(parser.request().body, "abcde");
}

struct Bad {
  const char* text;
  int status;
};

class RequestParserRefuses : public ::testing::TestWithParam<Bad> {};

TEST_P(RequestParserRefuses, WithAStatus) {
  HttpLimits limits;
  limits.head_bytes = 512;
  limits.field_count = 4;
  limits.body_bytes = 16;
  limits.chunk_line_bytes = 64;
  RequestParser parser(limits);
  ASSERT_EQ(feed_in_steps(parser, GetParam().text, 7), State::kFailed) << GetParam().text;
  EXPECT_EQ(parser.failure().status, GetParam().status) << parser.failure().words;
  EXPECT_FALSE(parser.failure().words.empty());
}

const std::string kLongLine = "GET /" + std::string(600, 'a');
const std::string kChunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
// Neither line ever ends; then whole ones.
const std::string kLongExtension = kChunked + "1;" + std::string(600, 'a');
const std::string kWholeExtension = kChunked + "1;" + std::string(100, 'a') + "\r\nx\r\n0\r\n\r\n";
const std::string kLongTrailer = kChunked + "0\r\nX: " + std::string(600, 'a');
const std::string kLongField = "GET / HTTP/1.1\r\nX: " + std::string(600, 'a');
INSTANTIATE_TEST_SUITE_P(
    All, RequestParserRefuses,
    ::testing::Values(
        Bad{"\x16\x03\x01\x02", 400}, Bad{"hello world\r\n\r\n", 400}, Bad{"GET / HTTP/2.0\r\n\r\n", 400},
        Bad{"GET  HTTP/1.1\r\n\r\n", 400}, Bad{"GET http://x/ HTTP/1.1\r\n\r\n", 400},
        Bad{"GET /%zz HTTP/1.1\r\n\r\n", 400}, Bad{"GET /%00 HTTP/1.1\r\n\r\n", 400},
        Bad{"GET /%ff HTTP/1.1\r\n\r\n", 400}, Bad{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        Bad{"POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\n", 413},
        Bad{"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
        Bad{"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        Bad{"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        Bad{"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        Bad{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n", 413},
        Bad{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n9\r\n123456789\r\n", 413},
        Bad{"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        Bad{"GET / HTTP/1.1\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\ne: 1\r\n\r\n", 431},
        Bad{kLongExtension.c_str(), 400}, Bad{kWholeExtension.c_str(), 400}, Bad{kLongTrailer.c_str(), 400},
        Bad{kLongLine.c_str(), 431}, Bad{kLongField.c_str(), 431}));

// Whatever comes, in whatever pieces: the same verdict, and no crash.
RC_GTEST_PROP(RequestParser, PiecesDoNotMatter, (std::string noise)) {
  const size_t at = *rc::gen::inRange<size_t>(0, kPost.size());
  const std::string text = std::string(kPost.substr(0, at)) + noise + std::string(kPost.substr(at));
  RequestParser whole({}), bytes({});
  const State a = feed_in_steps(whole, text, text.size());
  const State b = feed_in_steps(bytes, text, 1);
  // How soon a head without end is seen to be wrong may differ; what is taken for a request may not.
  RC_ASSERT((a == State::kDone) == (b == State::kDone));
  RC_ASSERT((a == State::kBody) == (b == State::kBody));
  if (a == State::kDone) RC_ASSERT(whole.request().body == bytes.request().body);
}

}  // namespace
}  // namespace butterfly::server
