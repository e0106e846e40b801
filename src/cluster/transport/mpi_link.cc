#include "cluster/transport/mpi_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::cluster {
namespace {

constexpr uint64_t kTellEvery = MpiLink::kWindow / 4;
constexpr Duration kLook = std::chrono::microseconds(50);   // without a pause
constexpr Duration kShort = std::chrono::microseconds(20);  // pauses, at first
constexpr Duration kLong = std::chrono::milliseconds(1);    // and in the end
constexpr Duration kUnder = std::chrono::milliseconds(1);   // between looks at the link underneath
constexpr Duration kLastWords = std::chrono::seconds(1);    // of a peer that closed its TLS link

// Channels begin at 1: the tags before are the job's.
uint32_t tag_of(const MpiPlace& place, bool mine, bool acks) {
  return place.channel * MpiWorld::kTagsPerChannel + (place.opened == mine ? 0 : 1) + (acks ? 2 : 0);
}

// Pauses that grow by an eighth of what was waited so far.
class Patience {
 public:
  explicit Patience(const Deadline& deadline) : deadline_(deadline), begin_(system_now()) {}
  // False: no time is left.
  bool wait() {
    const TimePoint now = system_now();
    if (now >= deadline_.when()) return false;
    if (now - begin_ < kLook) {
      std::this_thread::yield();
      return true;
    }
    SystemClock::instance().sleep_until(
        std::min(deadline_.when(), now + std::clamp((now - begin_) / 8, kShort, kLong)));
    return true;
  }
  Duration waited() const { return system_now() - begin_; }

 private:
  const Deadline& deadline_;
  const TimePoint begin_;
};

}  // namespace

MpiLink::MpiLink(std::unique_ptr<Link> under, std::shared_ptr<MpiWorld> world, const MpiPlace& place)
    : under_(std::move(under)),
      world_(std::move(world)),
      place_(place),
      out_(world_->outbox(place.rank, tag_of(place, true, false))),
      acks_in_(world_->inbox(place.rank, tag_of(place, true, true), sizeof(uint64_t), kChunksPosted)),
      in_(world_->inbox(place.rank, tag_of(place, false, false), kChunk, kChunksPosted)),
      acks_out_(world_->outbox(place.rank, tag_of(place, false, true))) {}

MpiLink::~MpiLink() { close(); }

Status MpiLink::send(MessageHead head, std::span<const std::span<const std::byte>> pieces, Duration timeout) {
  const auto bytes = message_bytes(head.kind, pieces);
  if (!bytes) return bytes.status();
  head.bytes = *bytes;
  const Deadline deadline(SystemClock::instance(), timeout);
  if (!sending_.try_lock_until(deadline.when()))
    return break_with(Errc::kTimeout, "others were sending all the time");
  Status status;
  try {
    status = working_.load(std::memory_order_acquire) ? send_chunks(encode_frame(head), pieces, deadline)
                                                      : why_not();
  } catch (const Error& error) {
    status = break_with(Errc::kPeerLost, error.what());
  }
  sending_.unlock();
  if (!status) return status;
  messages_sent_.fetch_add(1, std::memory_order_relaxed);
  bytes_sent_.fetch_add(kFrameBytes + head.bytes, std::memory_order_relaxed);
  return {};
}

Status MpiLink::send_chunks(const FrameBytes& frame, std::span<const std::span<const std::byte>> pieces,
                            const Deadline& deadline) {
  size_t left = frame.size();
  for (const auto& piece : pieces) left += piece.size();
  PooledArray<std::byte> chunk;
  size_t filled = 0;
  const auto add = [&](std::span<const std::byte> bytes) -> Status {
    while (!bytes.empty()) {
      if (filled == 0) chunk = PooledArray<std::byte>(std::min(left, kChunk));
      const size_t part = std::min(bytes.size(), chunk.size() - filled);
      std::memcpy(chunk.data() + filled, bytes.data(), part);
      bytes = bytes.subspan(part);
      left -= part;
      filled += part;
      if (filled < chunk.size()) continue;
      if (Status status = send_chunk(std::move(chunk), deadline); !status) return status;
      filled = 0;
    }
    return {};
  };
  if (Status status = add(frame); !status) return status;
  for (const auto& piece : pieces)
    if (Status status = add(piece); !status) return status;
  return {};
}

Status MpiLink::send_chunk(PooledArray<std::byte> chunk, const Deadline& deadline) {
  sent_ += chunk.size();
  Patience patience(deadline);
  while (sent_ - acknowledged_ > kWindow) {
    if (const auto said = acks_in_->look()) {
      uint64_t taken = 0;
      if (said->size() != sizeof taken) return break_with(Errc::kCorrupt, "said nonsense of what it took");
      std::memcpy(&taken, said->data(), sizeof taken);
      acks_in_->take();
      if (taken < acknowledged_ || taken > sent_)
        return break_with(Errc::kCorrupt, "took more than was sent");
      acknowledged_ = taken;
      continue;
    }
    if (!working_.load(std::memory_order_acquire)) return why_not();
    if (!patience.wait()) return break_with(Errc::kTimeout, "a message was not taken in time");
  }
  if (patience.waited() > kLook)
    send_wait_ns_.fetch_add(patience.waited().count(), std::memory_order_relaxed);
  out_->send(std::move(chunk));
  return {};
}

Result<MessageHead> MpiLink::receive_head(Duration timeout) {
  BF_CHECK(body_left_ == 0) << "[link] the body of the last message was not received";
  FrameBytes frame;
  if (Status status = read(frame, Deadline(SystemClock::instance(), timeout)); !status) return status;
  auto head = decode_frame(frame);
  if (!head) return break_with(head.status().code(), head.status().text());
  body_left_ = head->bytes;
  bytes_received_.fetch_add(kFrameBytes, std::memory_order_relaxed);
  if (body_left_ == 0) messages_received_.fetch_add(1, std::memory_order_relaxed);
  return head;
}

Status MpiLink::receive_body(std::span<std::byte> into, Duration timeout) {
  BF_CHECK(into.size() == body_left_)
      << "[link] room for " << into.size() << " bytes, the body has " << body_left_;
  return receive_part(into, timeout);
}

Status MpiLink::receive_part(std::span<std::byte> into, Duration timeout) {
  BF_CHECK(into.size() <= body_left_) << "[link] " << into.size() << " bytes of " << body_left_;
  body_left_ -= into.size();
  if (!working_.load(std::memory_order_acquire)) return why_not();
  if (into.empty()) return {};
  if (Status status = read(into, Deadline(SystemClock::instance(), timeout)); !status)
    return status.code() == Errc::kTimeout ? break_with(Errc::kTimeout, "a body did not come in time")
                                           : status;
  if (body_left_ == 0) messages_received_.fetch_add(1, std::memory_order_relaxed);
  bytes_received_.fetch_add(into.size(), std::memory_order_relaxed);
  return {};
}

Status MpiLink::read(std::span<std::byte> into, const Deadline& deadline) {
  bool begun = false;
  try {
    while (!into.empty()) {
      if (Status status = wait_for_chunk(deadline); !status)
        return begun && status.code() == Errc::kTimeout
                   ? break_with(Errc::kTimeout, "the rest of a message did not come in time")
                   : status;
      begun = true;
      const std::lock_guard lock(receiving_);
      const size_t part = std::min(into.size(), unread_.size());
      std::memcpy(into.data(), unread_.data(), part);
      into = into.subspan(part);
      unread_ = unread_.subspan(part);
      taken_ += part;
      if (!unread_.empty()) continue;
      in_->take();
      looked_at_ = false;
      if (taken_ - told_ < kTellEvery) continue;
      PooledArray<std::byte> words(sizeof taken_);
      std::memcpy(words.data(), &taken_, sizeof taken_);
      acks_out_->send(std::move(words));
      told_ = taken_;
    }
  } catch (const Error& error) {
    return break_with(Errc::kPeerLost, error.what());
  }
  return {};
}

bool MpiLink::chunk_is_here() const {
  if (looked_at_) return !ended_;
  const auto chunk = in_->look();
  if (!chunk) return false;
  looked_at_ = true;
  unread_ = *chunk;
  ended_ = unread_.empty();  // the last one
  return !ended_;
}

Status MpiLink::wait_for_chunk(const Deadline& deadline) {
  Patience patience(deadline);
  for (;;) {
    if (!working_.load(std::memory_order_acquire)) return why_not();
    bool here, ended;
    {
      const std::lock_guard lock(receiving_);
      here = chunk_is_here();
      ended = ended_;
    }
    if (here) {
      if (patience.waited() > kLook)
        receive_wait_ns_.fetch_add(patience.waited().count(), std::memory_order_relaxed);
      return {};
    }
    if (ended) return break_with(Errc::kPeerLost, "closed by the peer");
    if (Status status = look_under(); !status) return status;
    if (!patience.wait())
      return {Errc::kTimeout, fmt::format("[link] {}: nothing came", under_->peer().name)};
  }
}

Status MpiLink::look_under() {
  const TimePoint now = system_now();
  if (over_ && now - looked_under_ < kUnder) return {};
  looked_under_ = now;
  if (over_) {
    const auto head = under_->receive_head(Duration(0));
    if (head) return break_with(Errc::kCorrupt, "sent a message over TLS where rows go over MPI");
    if (head.status().code() == Errc::kTimeout) return {};
    over_ = head.status();
    over_since_ = now;
  }
  // What a peer sent before it closed comes by another way than the news of that.
  if (over_.code() == Errc::kPeerLost && now - over_since_ < kLastWords) return {};
  return break_with(over_.code(), over_.text());
}

bool MpiLink::waiting() const {
  if (!working_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(receiving_);
  return chunk_is_here();
}

void MpiLink::close() { (void)break_with(Errc::kCancelled, "closed on this side"); }

Status MpiLink::break_with(Errc code, std::string text) {
  bool first = false;
  {
    const std::lock_guard lock(reason_lock_);
    if (reason_.ok()) {
      first = true;
      reason_ = {code,
                 text.starts_with("[link]") ? text : fmt::format("[link] {}: {}", under_->peer().name, text)};
    }
  }
  working_.store(false, std::memory_order_release);
  if (first) {
    try {
      // Behind whatever was sent before; of a message that another thread is in the middle of nothing
      // follows.
      world_->outbox(place_.rank, tag_of(place_, true, false))->send(PooledArray<std::byte>());
    } catch (const Error&) {  // the link underneath tells it, too
    }
    under_->close();
  }
  return why_not();
}

Status MpiLink::why_not() const {
  const std::lock_guard lock(reason_lock_);
  return reason_;
}

LinkCounters MpiLink::counters() const {
  return {.messages_sent = messages_sent_,
          .messages_received = messages_received_,
          .bytes_sent = bytes_sent_,
          .bytes_received = bytes_received_,
          .send_wait = Duration(send_wait_ns_),
          .receive_wait = Duration(receive_wait_ns_)};
}

}  // namespace butterfly::cluster
