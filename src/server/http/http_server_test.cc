// The network part with a handler of the test's own: limits, deadlines and what clients can do to it.
#include "server/http/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/testing/temp_dir.h"
#include "server/testing/http_client.h"

namespace butterfly::server {
namespace {

using namespace std::chrono_literals;
using testing::ask;
using testing::Client;
using ::testing::HasSubstr;
using testing::request_text;
using ::testing::StartsWith;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.body_bytes = 1000;
  limits.connection_count = 8;
  limits.head_time = 300ms;
  limits.body_time = 300ms;
  limits.idle_time = 60s;
  limits.write_time = 500ms;
  limits.write_queue_bytes = 100'000;
  limits.ping_time = 100ms;
  return limits;
}

// A server whose requests wait in `exchanges` until the test answers them; those for /echo are answered at
// once.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpLimits limits = small_limits(), std::string unix_path = {}) {
    HttpServerOptions options;
    options.port = 0;
    options.limits = limits;
    options.unix_path = std::move(unix_path);
    server = std::make_unique<HttpServer>(
        options,
        [](const HttpRequest& request, Door) {
          if (request.path != "/secret") return std::unique_ptr<HttpResponse>();
          auto refusal = std::make_unique<HttpResponse>();
          refusal->status = 403;
          return refusal;
        },
        [this](ExchangePtr exchange, Door door) {
          if (exchange->request().path == "/echo") {
            HttpResponse response;
            response.body = (door == Door::kNetwork ? "" : "unix ") + exchange->request().body;
            return exchange->respond(std::move(response));
          }
          if (exchange->request().path == "/quick") return answer_from_two_threads(*exchange);
          const std::lock_guard lock(mutex);
          exchanges.push_back(std::move(exchange));
        });
    thread = std::thread([this] { server->run(); });
  }
  // On the network's thread, where quick routes run; the engine's thread goes on with the answer meanwhile.
  static void answer_from_two_threads(Exchange& exchange) {
    exchange.begin({}, "");
    exchange.write("one ");
    std::thread([&] {
      exchange.write("two ");
      exchange.write("three");
      exchange.end();
    }).join();
  }
  void TearDown() override {
    if (!server) return;
    exchanges.clear();
    server->stop();
    thread.join();
    server.reset();
  }
  ExchangePtr taken() {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (!exchanges.empty()) {
          ExchangePtr exchange = std::move(exchanges.back());
          exchanges.pop_back();
          return exchange;
        }
      }
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "no request came";
    return nullptr;
  }
  static bool soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    return condition();
  }
  uint16_t port() const { return server->port(); }

  std::unique_ptr<HttpServer> server;
  std::thread thread;
  std::mutex mutex;
  std::vector<ExchangePtr> exchanges;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  Client client(port());
  for (const char* body : {"one", "two", "three"}) {
    ASSERT_TRUE(client.send(request_text("POST", "/echo", body)));
    const auto reply = client.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, body);
    EXPECT_THAT(reply.fields.at("x-request-id"), StartsWith("req-"));
  }
  // Several at once: answered in order.
  ASSERT_TRUE(client.send(request_text("POST", "/echo", "four") + request_text("POST", "/echo", "five")));
  EXPECT_EQ(client.read().body, "four");
  EXPECT_EQ(client.read().body, "five");
  EXPECT_EQ(server->counters().accepted, 1u);
}

// Long answers are written from where they are, behind their heads.
TEST_F(HttpServerTest, LongAnswersFollowTheirHeads) {
  HttpLimits limits = small_limits();
  limits.body_bytes = size_t{4} << 20;
  limits.body_time = 60s;
  start(limits);
  Client client(port());
  for (const size_t bytes : {size_t{16} << 10, (size_t{16} << 10) + 1, size_t{3} << 20, size_t{5}}) {
    std::string body;
    while (body.size() < bytes) body += fmt::format("{} ", body.size());
    body.resize(bytes);
    ASSERT_TRUE(client.send(request_text("POST", "/echo", body) + request_text("POST", "/echo", "next") +
                            request_text("HEAD", "/echo", "")));
    const auto reply = client.read();
    EXPECT_EQ(reply.fields.at("content-length"), std::to_string(bytes));
    EXPECT_TRUE(reply.body == body) << bytes;
    EXPECT_EQ(client.read().body, "next");
    EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  }
}

// A stream that is taken up again is begun on the network's thread while its answer is being made: no piece
// of it may overtake the beginning, and be lost.
TEST_F(HttpServerTest, PiecesGoOutInOrderWhicheverThreadWroteThem) {
  start();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(request_text("GET", "/quick")));
    EXPECT_EQ(client.read().body, "one two three");
  }
}

TEST_F(HttpServerTest, HeadHasNoBodyAndOldClientsNoChunks) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request_text("HEAD", "/echo") + request_text("POST", "/echo", "x")));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Length: 0"));
  EXPECT_EQ(client.read().body, "x");

  Client old(port());
  ASSERT_TRUE(old.send("GET /wait HTTP/1.0\r\nHost: localhost\r\n\r\n"));
  const ExchangePtr exchange = taken();
  exchange->begin({}, "");
  exchange->write("plain");
  exchange->end();
  const auto reply = old.read();
  EXPECT_FALSE(reply.fields.contains("transfer-encoding"));
  EXPECT_EQ(reply.body, "plain");
}

TEST_F(HttpServerTest, RefusesBeforeTheBody) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send("POST /secret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"));
  EXPECT_EQ(client.read().status, 403);
  Client large(port());
  ASSERT_TRUE(large.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" +
                         std::string(1001, 'x')));
  const auto reply = large.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.body, HasSubstr("larger than 1000 bytes"));
  EXPECT_TRUE(large.closed());
  EXPECT_EQ(ask(port(), "GET", "/" + std::string(20000, 'a')).status, 431);
  Client noise(port());
  ASSERT_TRUE(noise.send("\x16\x03\x01 hello\r\n\r\n"));
  EXPECT_EQ(noise.read().status, 400);
}

TEST_F(HttpServerTest, ContinueIsSaidToThoseWhoWaitForIt) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("abc"));
  EXPECT_EQ(client.read().body, "abc");
}

TEST_F(HttpServerTest, HalfARequestIsCutByItsDeadline) {
  start();
  Client head(port()), body(port());
  ASSERT_TRUE(head.send("GET /echo HTTP/1.1\r\nHost: loc"));
  ASSERT_TRUE(body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"));
  EXPECT_TRUE(head.closed());
  EXPECT_TRUE(body.closed());
  EXPECT_EQ(server->counters().timed_out, 2u);
}

TEST_F(HttpServerTest, IdleConnectionsMakeRoom) {
  start();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(std::make_unique<Client>(port()));
  EXPECT_EQ(ask(port(), "POST", "/echo", "still here").body, "still here");
  EXPECT_LE(server->counters().connections, 8u);
  EXPECT_TRUE(idle.front()->closed());
}

TEST_F(HttpServerTest, StreamsComeInPiecesWithPings) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request_text("GET", "/wait")));
  const ExchangePtr exchange = taken();
  exchange->begin({}, ": ping\n\n");
  exchange->write("first");
  EXPECT_THAT(client.read_until("first"), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(client.read_until(": ping"), HasSubstr(": ping"));  // after a silence
  exchange->write("last");
  exchange->end();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("last"));
  // And the connection goes on.
  ASSERT_TRUE(client.send(request_text("POST", "/echo", "next")));
  EXPECT_EQ(client.read().body, "next");
}

TEST_F(HttpServerTest, AClientThatGoesIsNoticed) {
  start();
  std::atomic<int> gone{0};
  ExchangePtr exchange;
  {
    Client client(port());
    ASSERT_TRUE(client.send(request_text("GET", "/wait")));
    exchange = taken();
    exchange->on_gone([&] { ++gone; });
    EXPECT_FALSE(exchange->gone());
  }
  EXPECT_TRUE(soon([&] { return gone == 1; }));
  EXPECT_TRUE(exchange->gone());
  exchange->on_gone([&] { ++gone; });  // at once now
  EXPECT_EQ(gone, 2);
  exchange->respond({});  // into the void
}

TEST_F(HttpServerTest, AClientThatDoesNotReadIsCut) {
  start();
  Client client(port());
  const int small = 4096;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ASSERT_TRUE(client.send(request_text("GET", "/wait")));
  const ExchangePtr exchange = taken();
  exchange->begin({}, "");
  EXPECT_TRUE(soon([&] {
    exchange->write(std::string(10'000, 'x'));
    return exchange->gone();
  }));
  EXPECT_EQ(server->counters().slow_clients, 1u);
}

TEST_F(HttpServerTest, ASlowClientThatReadsOnGetsAllOfALongAnswer) {
  start();
  Client client(server->port());
  ASSERT_TRUE(client.send(request_text("GET", "/wait")));
  HttpResponse response;
  response.body.assign(size_t{24} << 20, 'x');
  taken()->respond(std::move(response));
  // Many times the deadline of one write, which each piece meets.
  (void)client.read_until("\r\n\r\n");
  const size_t all = (size_t{24} << 20) - 70000;  // but for what came with the head
  size_t bytes = 0;
  while (bytes < all) {
    std::string block(std::min(size_t{512} << 10, all - bytes), 0);
    const ssize_t n = ::recv(client.fd(), block.data(), block.size(), MSG_WAITALL);
    if (n <= 0) break;
    bytes += static_cast<size_t>(n);
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_EQ(bytes, all);
  EXPECT_EQ(server->counters().slow_clients, 0u);
}

TEST_F(HttpServerTest, ADroppedExchangeClosesItsConnection) {
  start();
  Client client(port());
  ASSERT_TRUE(client.send(request_text("GET", "/wait")));
  taken().reset();
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServerTest, LargeBodiesTogetherAreBounded) {
  HttpLimits limits = small_limits();
  limits.bodies_bytes = 1500;
  limits.body_time = 60s;
  start(limits);
  Client first(port()), second(port());
  const std::string most =
      "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" + std::string(900, 'x');
  ASSERT_TRUE(first.send(most));
  // One thread serves all: when one that came later has been answered, the first one's bytes have been read.
  Client later(port());
  ASSERT_TRUE(later.send(request_text("POST", "/echo", "x")));
  EXPECT_EQ(later.read().status, 200);
  ASSERT_TRUE(second.send(most));
  const auto reply = second.read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_TRUE(reply.fields.contains("retry-after"));
  ASSERT_TRUE(first.send(std::string(100, 'x')));
  taken()->respond({});
  EXPECT_EQ(first.read().status, 200);
}

TEST_F(HttpServerTest, UnixSocketIsForItsOwnerOnly) {
  const butterfly::testing::TempDir folder;
  const std::string path = (folder / "s").string();
  start(small_limits(), path);
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(HttpServerTest, StopAcceptingClosesIdleOnesAndLetsTheRestFinish) {
  start();
  Client idle(port()), busy(port());
  ASSERT_TRUE(idle.send(request_text("POST", "/echo", "x")));
  idle.read();
  ASSERT_TRUE(busy.send(request_text("GET", "/wait")));
  const ExchangePtr exchange = taken();
  server->stop_accepting();
  EXPECT_TRUE(idle.closed());
  exchange->respond({});
  const auto reply = busy.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.fields.at("connection"), "close");
}

}  // namespace
}  // namespace butterfly::server
