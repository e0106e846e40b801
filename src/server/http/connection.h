// One connection: reads a request, waits for its answer, writes it, reads the next. Only for http/.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/http_server.h"
#include "server/http/request_parser.h"
#include "server/http/stream.h"

namespace butterfly::server {

class Connection;
class ConnectionExchange;
using ConnectionList = std::list<std::shared_ptr<Connection>>;

// What the connections of a server share. But for the atomics only the network's thread touches it.
struct ConnectionShared {
  boost::asio::io_context io{1};
  // What exchanges ask for is done in the order in which they asked, whichever thread they were on: the
  // context alone keeps what its own thread posts for later, and what others post meanwhile would come first.
  boost::asio::strand<boost::asio::io_context::executor_type> order{io.get_executor()};
  HttpLimits limits;
  LargeBodyFor large_body;
  HeadCheck check;
  Refuse refuse;
  Dispatch dispatch;
  HttpCounters counters;
  ConnectionList waiting;  // without a request that is being answered; the longest without first
  ConnectionList busy;
  size_t bodies_bytes = 0;
  size_t large_bodies = 0;  // in files
  uint64_t next_id = 1;
  std::string id_prefix;  // of request ids: differs from start to start
  bool draining = false;
  std::atomic<size_t> open_exchanges{0};
  std::atomic<size_t> unanswered{0};  // connections in `busy`
};

// Lives in one of the lists until it is closed. Only the network's thread uses it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ConnectionShared> shared, std::unique_ptr<Stream> stream, Door door);

  void start();
  // Without an answer to what is open.
  void close();
  bool idle() const { return phase_ == Phase::kIdle; }

  // For ConnectionExchange; calls for another request than the present one are ignored.
  void respond(uint64_t serial, HttpResponse response);
  void begin(uint64_t serial, HttpResponse head, std::string ping);
  void write(uint64_t serial, std::string_view piece);
  void end(uint64_t serial);
  void abandon(uint64_t serial);  // nobody will answer

 private:
  enum class Phase { kHandshake, kIdle, kHead, kBody, kAnswer, kLinger, kClosed };

  void arm(std::chrono::milliseconds time);
  void wait_for_request();
  void read();
  void on_read(bool ok, size_t bytes);
  void parse();
  bool head_done();
  void request_done();
  void refuse(HttpResponse response);
  void finish_head(HttpResponse& response);
  void send(std::string_view bytes);
  void write_next();
  void write_block();
  void on_written(bool ok, size_t bytes);
  void answered();
  void linger();
  void arm_ping();
  void count_body(size_t bytes, bool large = false);
  bool is_current(uint64_t serial) const { return phase_ == Phase::kAnswer && serial == serial_; }

  std::shared_ptr<ConnectionShared> shared_;
  std::unique_ptr<Stream> stream_;
  const Door door_;
  Phase phase_ = Phase::kHandshake;
  ConnectionList::iterator place_;
  bool in_busy_ = false;
  boost::asio::steady_timer deadline_, write_deadline_, ping_timer_;

  std::array<char, 8192> block_;
  std::vector<char> long_block_;  // instead, for a long body
  bool reading_ = false;
  std::string input_;  // read and not yet parsed
  std::optional<RequestParser> parser_;
  size_t counted_body_ = 0;     // its part of bodies_bytes
  bool counted_large_ = false;  // and of large_bodies

  std::weak_ptr<ConnectionExchange> exchange_;
  uint64_t serial_ = 0;  // of the request that is answered
  bool head_only_ = false, chunks_ = true, keep_alive_ = true;
  bool streaming_ = false;
  bool ending_ = false;  // the answer's last byte is in the queue
  std::string ping_;
  std::string origin_;  // of the page that asks; it was allowed
  std::string writing_, queued_;
  std::string body_;    // of an answer in one piece, if it is long: comes behind queued_
  size_t written_ = 0;  // of writing_
  size_t lingered_ = 0;
};

}  // namespace butterfly::server
