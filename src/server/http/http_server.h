// Listens, reads requests and writes answers: one thread, any number of connections.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/exchange.h"
#include "server/http/limits.h"
#include "server/http/request_parser.h"

namespace butterfly::server {

// Where a request came in. Routes for the operator exist on the unix socket only.
enum class Door { kNetwork, kManagement };

// What is asked before a body is read, so that strangers cost little: null to go on, or the refusal.
using HeadCheck = std::function<std::unique_ptr<HttpResponse>(const HttpRequest& request, Door door)>;
// The answer to a request that breaks the protocol (4xx) or comes when memory is short (5xx).
using Refuse = std::function<HttpResponse(int status, const std::string& words)>;
HttpResponse refuse_in_words(int status, const std::string& words);  // as plain text
// Takes a whole request. Runs on the network's thread: it must hand work on.
using Dispatch = std::function<void(ExchangePtr exchange, Door door)>;

struct HttpServerOptions {
  bool network = true;  // false: the unix socket only
  std::string host = "127.0.0.1";
  uint16_t port = 8080;         // 0: any free one
  std::string unix_path;        // empty: none. Made with mode 0600; a stale one is replaced
  std::string tls_certificate;  // PEM files; both or neither
  std::string tls_key;
  HttpLimits limits;
  LargeBodyFor large_body;  // null: none is
  Refuse refuse = refuse_in_words;
};

// What happened so far, for /metrics.
struct HttpCounters {
  std::atomic<uint64_t> connections{0}, accepted{0}, evicted{0}, timed_out{0}, slow_clients{0},
      refused_heads{0};
  std::array<std::atomic<uint64_t>, 6> responses{};  // by class of status: [2] are the 2xx
};

// Owns its sockets and connections. One thread runs it; what says so may be called from others. What goes
// wrong on a connection ends that connection and nothing else.
class HttpServer {
 public:
  // Opens the ports; nothing is accepted before run(). Throws Error that names address and reason.
  HttpServer(HttpServerOptions options, HeadCheck check, Dispatch dispatch);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // 0 without a network
  const HttpCounters& counters() const;

  // Serves until stop(). The calling thread is the network's.
  void run();

  // Runs `action` on the network's thread, after `delay`. From any thread.
  void post(std::function<void()> action);
  void after(std::chrono::milliseconds delay, std::function<void()> action);
  // No new connections, and those without a request are closed; others after their answer. From any thread.
  void stop_accepting();
  // run() returns; what is open is closed. From any thread, also from a signal's watcher.
  void stop();
  // Calls `action` on the network's thread for each SIGTERM or SIGINT from now on.
  void on_signal(std::function<void(int signal)> action);

  // Requests that were read whole and have no whole answer yet.
  size_t open_exchanges() const;
  // Connections whose answer is not written to its last byte.
  size_t unanswered() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly::server
