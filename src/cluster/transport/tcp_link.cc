#include "cluster/transport/tcp_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cluster/transport/spin.h"

namespace butterfly::cluster {

using Step = TlsChannel::Step;

namespace {

constexpr Duration kBeatMax = std::chrono::seconds(1);  // for some 60 bytes that the socket has room for

int64_t now_ns() { return SystemClock::instance().now().time_since_epoch().count(); }

}  // namespace

TcpLink::TcpLink(std::unique_ptr<TlsChannel> channel, NodeId peer, const TcpOptions& options,
                 std::shared_ptr<OpenLinks> open_links)
    : peer_(std::move(peer)),
      options_(options),
      open_links_(std::move(open_links)),
      channel_(std::move(channel)),
      fd_(channel_->socket().fd()) {
  open_links_->enter(*this);
}

TcpLink::~TcpLink() {
  open_links_->leave(*this);
  close();
}

Status TcpLink::begin(MessageHead head, Pieces pieces, const Deadline& deadline) {
  const auto bytes = message_bytes(head.kind, pieces);
  if (!bytes) return bytes.status();
  head.bytes = *bytes;
  if (!sending_.try_lock_until(deadline.when())) return nothing_taken();
  if (!working_.load(std::memory_order_acquire)) {
    sending_.unlock();
    return why_not();
  }
  out_.begin(encode_frame(head), pieces);
  out_bytes_ = kFrameBytes + head.bytes;
  return {};
}

void TcpLink::ended(bool whole) {
  if (whole) {
    sent_at_.store(now_ns(), std::memory_order_relaxed);
    messages_sent_.fetch_add(1, std::memory_order_relaxed);
    bytes_sent_.fetch_add(out_bytes_, std::memory_order_relaxed);
  }
  sending_.unlock();
}

Status TcpLink::send(MessageHead head, Pieces pieces, Duration timeout) {
  const Deadline deadline(SystemClock::instance(), timeout);
  if (Status status = begin(head, pieces, deadline); !status.ok())
    return status.code() == Errc::kTimeout ? break_with(Errc::kTimeout, "others were sending all the time")
                                           : status;
  const Result<Moved> sent = push(SIZE_MAX, deadline);
  Status status = sent.status();
  if (sent && !sent->all) status = break_with(Errc::kTimeout, "a message was not taken in time");
  ended(status.ok());
  return status;
}

Status TcpLink::begin_send(MessageHead head, Pieces pieces) {
  return begin(head, pieces, Deadline(SystemClock::instance(), Duration(0)));
}

Result<Moved> TcpLink::send_more(size_t bytes) {
  const Result<Moved> sent = working_.load(std::memory_order_acquire)
                                 ? push(bytes, Deadline(SystemClock::instance(), Duration(0)))
                                 : why_not();
  if (!sent || sent->all) ended(sent.ok());
  return sent;
}

Result<Moved> TcpLink::push(size_t bytes, const Deadline& deadline) {
  Moved moved;
  while (!out_.done() && moved.bytes < bytes) {
    const std::span<const std::byte> part = out_.part();
    size_t count = 0;
    Step step;
    {
      const std::lock_guard lock(tls_);
      if (!record_begun_ && ++records_of_key_ > options_.records_per_key) {
        channel_->renew_keys();
        records_of_key_ = 1;
      }
      step = channel_->write(part, out_.more() || part.size() > TlsChannel::kRecordBytesMax, count);
      if (step == Step::kFailed) return break_with(Errc::kPeerLost, channel_->reason());
    }
    record_begun_ = step != Step::kDone;
    if (!record_begun_) {
      out_.take(count);
      moved.bytes += count;
    } else if (deadline.expired()) {
      break;
    } else if (Status status = wait(step, deadline, send_wait_ns_); !status.ok()) {
      if (status.code() == Errc::kTimeout) break;
      return status;
    }
  }
  moved.all = out_.done();
  return moved;
}

Result<MessageHead> TcpLink::receive_head(Duration timeout) {
  BF_CHECK(body_left_ == 0) << "[link] the body of the last message was not received";
  if (!working_.load(std::memory_order_acquire)) return why_not();
  const Deadline deadline(SystemClock::instance(), timeout);
  auto head = read_frame(deadline);
  // However many beats come, the caller gets its turn.
  while (head && head->kind == MessageKind::kBeat) {
    heard_at_.store(now_ns(), std::memory_order_relaxed);
    if (deadline.expired()) return nothing_came();
    head = read_frame(deadline);
  }
  if (!head) return head;
  if (head->kind != MessageKind::kHello) heard_at_.store(now_ns(), std::memory_order_relaxed);
  body_left_ = head->bytes;
  bytes_received_.fetch_add(kFrameBytes, std::memory_order_relaxed);
  if (body_left_ == 0) messages_received_.fetch_add(1, std::memory_order_relaxed);
  return head;
}

Result<MessageHead> TcpLink::read_frame(const Deadline& deadline) {
  if (Status status = read_into(frame_, frame_have_, deadline); !status.ok()) return status;
  frame_have_ = 0;
  auto head = decode_frame(frame_);
  if (!head) return break_with(head.status().code(), head.status().text());
  return head;
}

Status TcpLink::receive_body(std::span<std::byte> into, Duration timeout) {
  BF_CHECK(into.size() == body_left_)
      << "[link] room for " << into.size() << " bytes, the body has " << body_left_;
  return receive_part(into, timeout);
}

Status TcpLink::receive_part(std::span<std::byte> into, Duration timeout) {
  BF_CHECK(into.size() <= body_left_) << "[link] " << into.size() << " bytes of " << body_left_;
  body_left_ -= into.size();
  if (!working_.load(std::memory_order_acquire)) return why_not();
  if (into.empty()) return {};
  const Deadline deadline(SystemClock::instance(), timeout);
  size_t done = 0;
  if (Status status = read_into(into, done, deadline); !status.ok()) {
    if (status.code() != Errc::kTimeout) return status;
    return break_with(Errc::kTimeout, fmt::format("{} of {} bytes came in time", done, into.size()));
  }
  if (body_left_ == 0) messages_received_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(into.size(), std::memory_order_relaxed);
  return {};
}

Step TcpLink::read_once(std::span<std::byte> into, size_t& count, bool woken) {
  size_t behind = 0;
  bool partly = false;
  Step step;
  {
    const std::lock_guard lock(tls_);
    step = channel_->read(into, count);
    if (step == Step::kFailed) {
      (void)break_with(Errc::kPeerLost, channel_->reason());
      return step;
    }
    behind = channel_->pending();
    partly = step == Step::kWantRead && channel_->has_part();
  }
  if (step == Step::kDone) {
    // What lay there already says nothing of the way it came.
    if (woken) pace_.came(count + behind, SystemClock::instance().now());
    if (heard_at_.load(std::memory_order_relaxed) != 0) heard_at_.store(now_ns(), std::memory_order_relaxed);
  } else if (woken && partly) {
    pace_.began(SystemClock::instance().now());
  }
  return step;
}

Result<size_t> TcpLink::receive_some(std::span<std::byte> into) {
  BF_CHECK(into.size() <= body_left_) << "[link] " << into.size() << " bytes of " << body_left_;
  if (!working_.load(std::memory_order_acquire)) return why_not();
  size_t done = 0;
  while (done < into.size()) {
    size_t count = 0;
    const Step step = read_once(into.subspan(done), count, true);
    if (step == Step::kFailed) return why_not();
    if (step != Step::kDone) break;
    done += count;
  }
  body_left_ -= done;
  if (done > 0 && body_left_ == 0) messages_received_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

Status TcpLink::read_into(std::span<std::byte> into, size_t& done, const Deadline& deadline) {
  while (done < into.size()) {
    size_t count = 0;
    const Step step = read_once(into.subspan(done), count, woken_);
    if (step == Step::kFailed) return why_not();
    woken_ = woken_ && step != Step::kDone;
    if (step == Step::kDone) {
      done += count;
    } else if (Status status = wait(step, deadline, receive_wait_ns_); !status.ok()) {
      return status;
    } else {
      woken_ = true;
    }
  }
  return {};
}

// A receiver spins first; a sender whose peer is slow would spin in vain.
Status TcpLink::wait(Step step, const Deadline& deadline, std::atomic<int64_t>& waited) {
  const TimePoint start = SystemClock::instance().now();
  const bool reading = step == Step::kWantRead;
  if (reading && deadline.when() <= start)  // it only looked
    return working_.load(std::memory_order_acquire) ? nothing_came() : why_not();
  const bool ready = (reading && spin_until_readable(fd_, std::min(options_.spin, deadline.remaining()))) ||
                     wait_ready(fd_, reading ? POLLIN : POLLOUT, deadline);
  waited.fetch_add((SystemClock::instance().now() - start).count(), std::memory_order_relaxed);
  if (!working_.load(std::memory_order_acquire)) return why_not();
  if (ready) return {};
  return nothing_came();
}

Status TcpLink::nothing_came() const {
  return {Errc::kTimeout, fmt::format("[link] {}: nothing came", peer_.name)};
}
Status TcpLink::nothing_taken() const {
  return {Errc::kTimeout, fmt::format("[link] {}: others are sending", peer_.name)};
}

void TcpLink::beat(Duration every) {
  const TimePoint now = SystemClock::instance().now();
  if (!working_.load(std::memory_order_acquire) ||
      now.time_since_epoch().count() - sent_at_.load(std::memory_order_relaxed) < every.count())
    return;
  const FrameBytes frame = encode_frame({.kind = MessageKind::kBeat, .epoch = 0, .step = 0, .bytes = 0});
  if (!sending_.try_lock_until(now)) return;
  if (working_.load(std::memory_order_acquire) &&
      wait_ready(fd_, POLLOUT, Deadline(SystemClock::instance(), Duration(0)))) {
    out_.begin(frame, {});
    const Result<Moved> sent = push(SIZE_MAX, Deadline(SystemClock::instance(), kBeatMax));
    if (sent && sent->all) sent_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    if (sent && !sent->all) (void)break_with(Errc::kTimeout, "a message was not taken in time");
  }
  sending_.unlock();
}

Duration TcpLink::silent() const {
  const int64_t heard_at = heard_at_.load(std::memory_order_relaxed);
  if (heard_at == 0 || !working_.load(std::memory_order_acquire)) return {};
  const Duration crawling = pace_.crawling(SystemClock::instance().now());
  return std::max(crawling, waiting() ? Duration(0) : Duration(now_ns() - heard_at));
}

bool TcpLink::waiting() const {
  char first;
  return working_.load(std::memory_order_acquire) && ::recv(fd_, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

Duration TcpLink::unacknowledged() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (!working_.load(std::memory_order_acquire) ||
      ::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return {};
  // Segments that were sent once, or the probes of a window that is closed: a machine that is there answers
  // both.
  if (info.tcpi_unacked == 0 && info.tcpi_probes == 0) return {};
  const uint32_t ms = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  return std::chrono::milliseconds(info.tcpi_retransmits > 0 || info.tcpi_backoff > 0 ? ms : 0);
}

// Beyond the system's bound (net.core.wmem_max) only where this process may; less than asked for is no error.
void TcpLink::set_socket_bytes(size_t bytes) {
  const int size = static_cast<int>(std::min<size_t>(bytes, 1 << 30));
  for (const auto& [forced, plain] :
       {std::pair{SO_SNDBUFFORCE, SO_SNDBUF}, std::pair{SO_RCVBUFFORCE, SO_RCVBUF}})
    if (::setsockopt(fd_, SOL_SOCKET, forced, &size, sizeof size) != 0)
      (void)::setsockopt(fd_, SOL_SOCKET, plain, &size, sizeof size);
}

void TcpLink::close() { (void)break_with(Errc::kCancelled, "closed on this side"); }

Status TcpLink::break_with(Errc code, std::string text) {
  {
    const std::lock_guard lock(reason_lock_);
    if (reason_.ok()) reason_ = {code, fmt::format("[link] {}: {}", peer_.name, text)};
  }
  working_.store(false, std::memory_order_release);
  (void)::shutdown(fd_, SHUT_RDWR);  // wakes whoever polls; the number stays ours until the link dies
  return why_not();
}

Status TcpLink::why_not() const {
  const std::lock_guard lock(reason_lock_);
  return reason_;
}

LinkCounters TcpLink::counters() const {
  return {.messages_sent = messages_sent_,
          .messages_received = messages_received_,
          .bytes_sent = bytes_sent_,
          .bytes_received = bytes_received_,
          .send_wait = Duration(send_wait_ns_),
          .receive_wait = Duration(receive_wait_ns_)};
}

}  // namespace butterfly::cluster
