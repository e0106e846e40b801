#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "server/http/connection_exchange.h"

namespace butterfly::server {
namespace {

constexpr size_t kPipelinedMax = size_t{16}
                                 << 10;  // bytes of next requests that are read while one is answered
// A long body is read in larger blocks: asking the socket for each small one takes longer than copying it.
// The limit on bodies counts what is behind such a block, so there are few.
constexpr size_t kLongBody = size_t{64} << 10, kLongBlock = size_t{64} << 10;
constexpr size_t kWriteBlock = size_t{16} << 10;
// A longer body is written from where it is: copying megabytes would hold up every other connection.
constexpr size_t kJoinedMax = size_t{16} << 10;
constexpr size_t kLingerBytesMax = size_t{64} << 20;

using Timer = boost::asio::steady_timer;

// Not cancel(): a wait that has just ended cannot be taken back, and would find its time still past.
void disarm(Timer& timer) { timer.expires_at(Timer::time_point::max()); }

// Calls `action` at the timer's time, unless it was set anew or disarmed in between.
template <typename Action>
void on_time(const std::shared_ptr<Connection>& connection, Timer& timer, Action action) {
  timer.async_wait([weak = std::weak_ptr(connection), &timer, action](boost::system::error_code ec) {
    const auto self = weak.lock();  // keeps the timer alive too
    if (!ec && self != nullptr && Timer::clock_type::now() >= timer.expiry()) action(*self);
  });
}

}  // namespace

Connection::Connection(std::shared_ptr<ConnectionShared> shared, std::unique_ptr<Stream> stream, Door door)
    : shared_(std::move(shared)),
      stream_(std::move(stream)),
      door_(door),
      deadline_(shared_->io),
      write_deadline_(shared_->io),
      ping_timer_(shared_->io) {}

void Connection::start() {
  place_ = shared_->waiting.insert(shared_->waiting.end(), shared_from_this());
  ++shared_->counters.connections;
  ++shared_->counters.accepted;
  arm(shared_->limits.handshake_time);
  stream_->handshake([self = shared_from_this()](bool ok, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    if (!ok) return self->close();
    self->wait_for_request();
  });
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  for (Timer* timer : {&deadline_, &write_deadline_, &ping_timer_}) disarm(*timer);
  stream_->close();
  parser_.reset();
  count_body(0);
  --shared_->counters.connections;
  const std::shared_ptr<Connection> self = shared_from_this();  // the list may hold the last reference
  if (in_busy_) --shared_->unanswered;
  (in_busy_ ? shared_->busy : shared_->waiting).erase(place_);
  if (const auto exchange = exchange_.lock()) exchange->set_gone();
  exchange_.reset();
}

// When the time is over the connection ends, whatever it waits for.
void Connection::arm(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  on_time(shared_from_this(), deadline_, [](Connection& self) {
    if (self.phase_ == Phase::kClosed) return;
    if (self.phase_ != Phase::kIdle && self.phase_ != Phase::kLinger) ++self.shared_->counters.timed_out;
    self.close();
  });
}

void Connection::wait_for_request() {
  phase_ = Phase::kIdle;
  auto& waiting = shared_->waiting;
  waiting.splice(waiting.end(), in_busy_ ? shared_->busy : waiting, place_);
  if (std::exchange(in_busy_, false)) --shared_->unanswered;
  parser_.emplace(shared_->limits, shared_->large_body);
  arm(shared_->limits.idle_time);
  parse();
}

void Connection::read() {
  if (reading_) return;
  reading_ = true;
  const bool in_body = phase_ == Phase::kBody;
  if (in_body && (parser_->request().body.size() >= kLongBody || parser_->request().body_file != nullptr)) {
    long_block_.resize(kLongBlock);
  } else {
    long_block_ = {};
  }
  const std::span<char> block = long_block_.empty() ? std::span<char>(block_) : std::span<char>(long_block_);
  stream_->read_some(block.data(), block.size(), [self = shared_from_this()](bool ok, size_t bytes) {
    self->reading_ = false;
    if (self->phase_ != Phase::kClosed) self->on_read(ok, bytes);
  });
}

void Connection::on_read(bool ok, size_t bytes) {
  if (!ok) return close();  // also while a request is answered: the client has gone
  if (phase_ == Phase::kLinger) {
    lingered_ += bytes;
    return lingered_ > kLingerBytesMax ? close() : read();
  }
  input_.append(long_block_.empty() ? block_.data() : long_block_.data(), bytes);
  if (phase_ == Phase::kAnswer) {
    if (input_.size() < kPipelinedMax) read();
    return;
  }
  parse();
}

// Looks at what has been read, and reads on while the request is not whole.
void Connection::parse() {
  if (phase_ == Phase::kIdle) {
    if (input_.empty()) return read();
    phase_ = Phase::kHead;
    arm(shared_->limits.head_time);
  }
  if (phase_ == Phase::kHead) {
    const auto state = parser_->feed(input_);
    if (state == RequestParser::State::kHead) return read();
    if (state != RequestParser::State::kFailed && !head_done()) return;
  }
  if (parser_->state() == RequestParser::State::kBody) parser_->feed(input_);
  if (parser_->state() == RequestParser::State::kFailed) {
    const RequestParser::Failure& failure = parser_->failure();
    return refuse(shared_->refuse(failure.status, failure.words));
  }
  count_body(parser_->request().body.size(), parser_->request().body_file != nullptr);
  if (shared_->bodies_bytes > shared_->limits.bodies_bytes ||
      shared_->large_bodies > shared_->limits.large_bodies) {
    HttpResponse busy = shared_->refuse(503, "too many large requests are being received; try again soon");
    busy.fields.emplace_back("Retry-After", "1");
    return refuse(std::move(busy));
  }
  if (parser_->state() == RequestParser::State::kBody) return read();
  request_done();
}

// False: the request was refused.
bool Connection::head_done() {
  const HttpRequest& request = parser_->request();
  const std::string* origin = request.field("origin");
  origin_ = origin != nullptr ? *origin : "";
  if (auto refusal = shared_->check(request, door_)) {
    ++shared_->counters.refused_heads;
    if (refusal->status >= 400) origin_.clear();
    refuse(std::move(*refusal));
    return false;
  }
  if (parser_->state() == RequestParser::State::kDone) return true;
  phase_ = Phase::kBody;
  const uint64_t length = parser_->body_length().value_or(shared_->limits.body_bytes);
  arm(shared_->limits.body_time +
      std::chrono::seconds(length / std::max<size_t>(1, shared_->limits.body_bytes_per_second)));
  if (request.expects_continue && input_.empty()) send("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void Connection::request_done() {
  disarm(deadline_);
  shared_->busy.splice(shared_->busy.end(), shared_->waiting, place_);
  in_busy_ = true;
  ++shared_->unanswered;
  phase_ = Phase::kAnswer;
  serial_ = shared_->next_id++;
  HttpRequest request = std::move(parser_->request());
  parser_.reset();
  head_only_ = request.method == "HEAD";
  chunks_ = request.chunks;
  keep_alive_ = request.keep_alive && !shared_->draining;
  streaming_ = ending_ = false;
  auto exchange = std::make_shared<ConnectionExchange>(shared_, shared_from_this(), serial_,
                                                       fmt::format("{}{:06x}", shared_->id_prefix, serial_),
                                                       std::move(request));
  exchange_ = exchange;
  read();  // notices when the client goes
  shared_->dispatch(std::move(exchange), door_);
}

void Connection::refuse(HttpResponse response) {
  disarm(deadline_);
  phase_ = Phase::kAnswer;
  serial_ = shared_->next_id++;
  parser_.reset();
  streaming_ = ending_ = head_only_ = false;
  response.close = true;
  response.fields.emplace_back("X-Request-Id", fmt::format("{}{:06x}", shared_->id_prefix, serial_));
  respond(serial_, std::move(response));
}

void Connection::respond(uint64_t serial, HttpResponse response) {
  if (!is_current(serial) || ending_) return;
  keep_alive_ = keep_alive_ && !response.close && !shared_->draining;
  if (streaming_) return end(serial);  // an error after the stream began: the stream's own words said it
  ending_ = true;
  finish_head(response);
  std::string bytes = response_head(response, {.keep_alive = keep_alive_});
  if (!head_only_ && response.body.size() <= kJoinedMax) {
    bytes += response.body;
  } else if (!head_only_) {
    body_ = std::move(response.body);
  }
  send(bytes);
}

void Connection::begin(uint64_t serial, HttpResponse head, std::string ping) {
  if (!is_current(serial) || streaming_ || ending_) return;
  if (head_only_) {  // whoever would write the stream is told that nobody reads it
    ending_ = true;
    finish_head(head);
    send(response_head(
        head, {chunks_ ? Framing::kChunks : Framing::kUntilClose, keep_alive_ = keep_alive_ && chunks_}));
    if (const auto exchange = exchange_.lock()) exchange->set_gone();
    return;
  }
  streaming_ = true;
  keep_alive_ = keep_alive_ && chunks_ && !shared_->draining;
  ping_ = std::move(ping);
  finish_head(head);
  send(response_head(head, {chunks_ ? Framing::kChunks : Framing::kUntilClose, keep_alive_}));
  arm_ping();
}

// Counts it, and lets the page that asked read it.
void Connection::finish_head(HttpResponse& response) {
  ++shared_->counters.responses[std::clamp(response.status / 100, 0, 5)];
  if (origin_.empty()) return;
  response.fields.emplace_back("Access-Control-Allow-Origin", origin_);
  response.fields.emplace_back("Vary", "Origin");
}

void Connection::write(uint64_t serial, std::string_view piece) {
  if (!is_current(serial) || !streaming_ || ending_ || piece.empty()) return;
  send(chunks_ ? chunk(piece) : std::string(piece));
  if (phase_ == Phase::kAnswer) arm_ping();
}

void Connection::end(uint64_t serial) {
  if (!is_current(serial) || !streaming_ || ending_) return;
  ending_ = true;
  disarm(ping_timer_);
  if (chunks_) return send(chunk(""));
  if (writing_.empty()) answered();
}

void Connection::abandon(uint64_t serial) {
  if (is_current(serial) && !ending_) close();
}

void Connection::arm_ping() {
  if (ping_.empty()) return;
  ping_timer_.expires_after(shared_->limits.ping_time);
  on_time(shared_from_this(), ping_timer_,
          [serial = serial_](Connection& self) { self.write(serial, std::string(self.ping_)); });
}

void Connection::send(std::string_view bytes) {
  queued_ += bytes;
  if (!writing_.empty()) {
    // Answers in one piece may be long; only streams must not pile up.
    if (streaming_ && queued_.size() > shared_->limits.write_queue_bytes) {
      ++shared_->counters.slow_clients;
      close();
    }
    return;
  }
  write_next();
}

void Connection::write_next() {
  writing_.swap(queued_);
  written_ = 0;
  write_block();
}

// A block at a time, each with its own deadline: a long answer to a slow client takes as long as it takes,
// and only one that takes nothing at all is cut.
void Connection::write_block() {
  write_deadline_.expires_after(shared_->limits.write_time);
  on_time(shared_from_this(), write_deadline_, [](Connection& self) {
    if (self.phase_ == Phase::kClosed) return;
    ++self.shared_->counters.slow_clients;
    self.close();
  });
  stream_->write(std::string_view(writing_).substr(written_, kWriteBlock),
                 [self = shared_from_this()](bool ok, size_t bytes) { self->on_written(ok, bytes); });
}

void Connection::on_written(bool ok, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  disarm(write_deadline_);
  if (!ok) return close();
  written_ += bytes;
  if (written_ < writing_.size()) return write_block();
  writing_.clear();
  if (writing_.capacity() > kJoinedMax) writing_ = {};  // idle connections are many
  if (queued_.empty()) queued_.swap(body_);
  if (!queued_.empty()) return write_next();
  if (phase_ == Phase::kAnswer && ending_) answered();
}

void Connection::answered() {
  count_body(0);
  exchange_.reset();
  disarm(ping_timer_);
  if (!keep_alive_) return linger();
  wait_for_request();
}

// The client may still be sending what we did not want. Closing now would throw away our answer on its way.
void Connection::linger() {
  phase_ = Phase::kLinger;
  if (in_busy_) {
    shared_->waiting.splice(shared_->waiting.begin(), shared_->busy, place_);
    in_busy_ = false;
    --shared_->unanswered;
  }
  stream_->shutdown_send();
  arm(shared_->limits.linger_time);
  read();
}

void Connection::count_body(size_t bytes, bool large) {
  shared_->large_bodies += large ? 1 : 0;
  shared_->large_bodies -= std::exchange(counted_large_, large) ? 1 : 0;
  shared_->bodies_bytes += bytes;
  shared_->bodies_bytes -= counted_body_;
  counted_body_ = bytes;
}

}  // namespace butterfly::server
