#include "cluster/transport/tcp_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
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

Status TcpLink::send(MessageHead head, std::span<const std::span<const std::byte>> pieces, Duration timeout) {
  const auto bytes = message_bytes(head.kind, pieces);
  if (!bytes) return bytes.status();
  head.bytes = *bytes;
  const Deadline deadline(SystemClock::instance(), timeout);
  if (!sending_.try_lock_until(deadline.when()))
    return break_with(Errc::kTimeout, "others were sending all the time");
  Status status = working_.load(std::memory_order_acquire) ? send_pieces(encode_frame(head), pieces, deadline)
                                                           : why_not();
  sending_.unlock();
  if (!status.ok()) return status;
  sent_at_.store(now_ns(), std::memory_order_relaxed);
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(kFrameBytes + head.bytes, std::memory_order_relaxed);
  return {};
}

Status TcpLink::send_pieces(const FrameBytes& frame, std::span<const std::span<const std::byte>> pieces,
                            const Deadline& deadline) {
  std::memcpy(gather_.data(), frame.data(), frame.size());
  size_t gathered = frame.size();
  size_t left = 0;
  for (const auto& piece : pieces) left += piece.size();
  for (const auto& piece : pieces) {
    if (piece.empty()) continue;
    left -= piece.size();
    if (piece.size() <= kCopyMax && gathered + piece.size() <= gather_.size()) {
      std::memcpy(gather_.data() + gathered, piece.data(), piece.size());
      gathered += piece.size();
      continue;
    }
    if (gathered > 0)
      if (Status status = write_all({gather_.data(), gathered}, true, deadline); !status.ok()) return status;
    gathered = 0;
    if (Status status = write_all(piece, left > 0, deadline); !status.ok()) return status;
  }
  return gathered > 0 ? write_all({gather_.data(), gathered}, false, deadline) : Status();
}

Status TcpLink::write_all(std::span<const std::byte> bytes, bool more, const Deadline& deadline) {
  bool begun = false;  // a record that waits for room: nothing may come between its parts
  while (!bytes.empty()) {
    size_t count = 0;
    Step step;
    {
      const std::lock_guard lock(tls_);
      if (!begun && ++records_of_key_ > options_.records_per_key) {
        channel_->renew_keys();
        records_of_key_ = 1;
      }
      step = channel_->write(bytes, more || bytes.size() > TlsChannel::kRecordBytesMax, count);
      if (step == Step::kFailed) return break_with(Errc::kPeerLost, channel_->reason());
    }
    begun = step != Step::kDone;
    if (!begun)
      bytes = bytes.subspan(count);
    else if (Status status = wait(step, deadline, send_wait_ns_); !status.ok())
      return status.code() == Errc::kTimeout ? break_with(Errc::kTimeout, "a message was not taken in time")
                                             : status;
  }
  return {};
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

Status TcpLink::read_into(std::span<std::byte> into, size_t& done, const Deadline& deadline) {
  while (done < into.size()) {
    size_t count = 0, behind = 0;
    Step step;
    {
      const std::lock_guard lock(tls_);
      step = channel_->read(into.subspan(done), count);
      if (step == Step::kFailed) return break_with(Errc::kPeerLost, channel_->reason());
      behind = channel_->pending();
    }
    // What lay there already says nothing of the way it came.
    if (woken_ && step == Step::kDone) pace_.came(count + behind, SystemClock::instance().now());
    if (woken_ && step == Step::kWantRead) pace_.began(SystemClock::instance().now());
    woken_ = woken_ && step != Step::kDone;
    if (step == Step::kDone) {
      done += count;
      if (heard_at_.load(std::memory_order_relaxed) != 0)
        heard_at_.store(now_ns(), std::memory_order_relaxed);
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

void TcpLink::beat(Duration every) {
  const TimePoint now = SystemClock::instance().now();
  if (!working_.load(std::memory_order_acquire) ||
      now.time_since_epoch().count() - sent_at_.load(std::memory_order_relaxed) < every.count())
    return;
  if (!sending_.try_lock_until(now)) return;
  if (working_.load(std::memory_order_acquire) &&
      wait_ready(fd_, POLLOUT, Deadline(SystemClock::instance(), Duration(0))) &&
      write_all(encode_frame({.kind = MessageKind::kBeat, .epoch = 0, .step = 0, .bytes = 0}), false,
                Deadline(SystemClock::instance(), kBeatMax))
          .ok())
    sent_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
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
