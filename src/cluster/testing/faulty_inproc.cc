#include "cluster/testing/faulty_inproc.h"

#include <fmt/core.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "cluster/transport/frame.h"

namespace butterfly::cluster::testing {
namespace {

constexpr size_t kOnTheWayMax = 65536;

struct OnTheWay {
  MessageHead head;
  std::vector<std::byte> body;
  uint64_t number = 0;
};

// One direction.
struct Lane {
  std::multimap<TimePoint, OnTheWay> messages;  // by arrival
  uint64_t sent = 0;
  uint64_t received_last = 0;
  TimePoint last_arrival{};
  std::optional<TimePoint> broken_at;  // from when on the receiver sees the break
  uint64_t draws = 0;
};

struct Pair {
  Pair(Clock& c, FaultOptions o) : clock(c), options(o) {}
  Clock& clock;
  const FaultOptions options;
  Lane lanes[2];
  FaultyStats stats;
  bool silent = false;
};

class FaultyEnd final : public FaultyLink {
 public:
  FaultyEnd(NodeId peer, std::shared_ptr<Pair> pair, int side)
      : peer_(std::move(peer)),
        pair_(std::move(pair)),
        out_(pair_->lanes[side]),
        in_(pair_->lanes[1 - side]),
        side_(side) {}
  ~FaultyEnd() override { FaultyEnd::close(); }

  const NodeId& peer() const override { return peer_; }

  Status send(MessageHead head, std::span<const std::span<const std::byte>> pieces, Duration) override {
    const auto bytes = message_bytes(head.kind, pieces);
    if (!bytes) return bytes.status();
    if (closed_) return cancelled();
    if (in_.broken_at && *in_.broken_at <= now()) return lost();
    head.bytes = *bytes;
    ++counters_.messages_sent;
    counters_.bytes_sent += kFrameBytes + head.bytes;
    if (pair_->silent) return {};
    if (out_.broken_at) return lost();
    if (out_.messages.size() >= kOnTheWayMax) {
      break_lanes();
      return {Errc::kQueueFull,
              fmt::format("[faulty] {}: {} messages are on the way", peer_.name, kOnTheWayMax)};
    }
    OnTheWay message{head, {}, out_.sent++};
    for (const auto& piece : pieces) message.body.insert(message.body.end(), piece.begin(), piece.end());
    const bool breaks = draw() < pair_->options.break_chance;
    const bool twice = draw() < pair_->options.duplicate_chance;
    if (breaks) {
      break_lanes();
      return {};
    }
    if (twice) {
      ++pair_->stats.duplicates;
      put(message);
    }
    put(std::move(message));
    return {};
  }

  Result<MessageHead> receive_head(Duration timeout) override {
    BF_CHECK(body_left_ == 0) << "[link] the body of the last message was not received";
    if (closed_) return cancelled();
    const Deadline deadline(pair_->clock, timeout);
    const TimePoint start = now();
    const auto next = next_arrival();
    const bool comes = next && *next <= deadline.when();
    pair_->clock.sleep_until(comes ? *next : deadline.when());
    counters_.receive_wait += now() - start;
    if (!comes) return {Errc::kTimeout, fmt::format("[link] {}: nothing came", peer_.name)};
    if (in_.messages.empty() || in_.messages.begin()->first > now()) return lost();
    auto first = in_.messages.begin();
    if (first->second.number < in_.received_last) ++pair_->stats.overtaken;
    in_.received_last = std::max(in_.received_last, first->second.number);
    current_ = std::move(first->second);
    in_.messages.erase(first);
    body_left_ = current_.head.bytes;
    ++counters_.messages_received;
    counters_.bytes_received += kFrameBytes + body_left_;
    return current_.head;
  }

  Status receive_body(std::span<std::byte> into, Duration) override {
    BF_CHECK(into.size() == body_left_)
        << "[link] room for " << into.size() << " bytes, the body has " << body_left_;
    return receive_part(into, {});
  }

  Status receive_part(std::span<std::byte> into, Duration) override {
    BF_CHECK(into.size() <= body_left_) << "[link] " << into.size() << " bytes of " << body_left_;
    const size_t at = current_.body.size() - body_left_;
    body_left_ -= into.size();
    if (!into.empty()) std::memcpy(into.data(), current_.body.data() + at, into.size());
    return {};
  }

  void close() override {
    if (closed_) return;
    closed_ = true;
    if (!pair_->silent && !out_.broken_at) out_.broken_at = arrival(out_);
  }

  LinkCounters counters() const override { return counters_; }

  std::optional<TimePoint> next_arrival() const override {
    if (pair_->silent) return std::nullopt;
    std::optional<TimePoint> next = in_.broken_at;
    if (!in_.messages.empty() && (!next || in_.messages.begin()->first <= *next))
      next = in_.messages.begin()->first;
    return next;
  }

  FaultyStats stats() const override { return pair_->stats; }

  void go_silent() override {
    pair_->silent = true;
    for (Lane& lane : pair_->lanes) lane.messages.clear();
  }

 private:
  TimePoint now() const { return pair_->clock.now(); }
  double draw() { return random_uniform(pair_->options.seed, static_cast<uint64_t>(side_), out_.draws++); }
  TimePoint arrival(Lane& lane) {
    const Duration range = pair_->options.delay_max - pair_->options.delay_min;
    const TimePoint drawn = now() + pair_->options.delay_min +
                            Duration(static_cast<int64_t>(draw() * static_cast<double>(range.count())));
    if (pair_->options.reorder) return drawn;
    lane.last_arrival = std::max(lane.last_arrival, drawn);
    return lane.last_arrival;
  }
  void put(OnTheWay message) {
    const TimePoint when = arrival(out_);
    out_.messages.emplace(when, std::move(message));
  }
  // Both ends see it after a delay. What is on the way and arrives later than that is lost.
  void break_lanes() {
    for (Lane& lane : pair_->lanes)
      if (!lane.broken_at) lane.broken_at = arrival(lane);
  }
  Status cancelled() const {
    return {Errc::kCancelled, fmt::format("[link] {}: closed on this side", peer_.name)};
  }
  Status lost() const { return {Errc::kPeerLost, fmt::format("[link] {}: the link broke", peer_.name)}; }

  const NodeId peer_;
  const std::shared_ptr<Pair> pair_;
  Lane& out_;
  Lane& in_;
  const int side_;
  bool closed_ = false;
  OnTheWay current_;
  size_t body_left_ = 0;
  LinkCounters counters_;
};

}  // namespace

std::pair<std::unique_ptr<FaultyLink>, std::unique_ptr<FaultyLink>> faulty_inproc_pair(NodeId a_id,
                                                                                       NodeId b_id,
                                                                                       Clock& clock,
                                                                                       FaultOptions options) {
  BF_CHECK(options.delay_min >= Duration::zero() && options.delay_min <= options.delay_max)
      << "[faulty] delays";
  auto pair = std::make_shared<Pair>(clock, options);
  return {std::make_unique<FaultyEnd>(std::move(b_id), pair, 0),
          std::make_unique<FaultyEnd>(std::move(a_id), pair, 1)};
}

}  // namespace butterfly::cluster::testing
