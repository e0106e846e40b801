// Faulty links under a virtual clock: late, in order or not, broken or silent, and the same for the same
// seed.
#include "cluster/testing/faulty_inproc.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "cluster/transport/message.h"

namespace butterfly::cluster::testing {
namespace {

using namespace std::chrono_literals;

struct Net {
  explicit Net(FaultOptions options) {
    std::tie(a, b) = faulty_inproc_pair({"a", "a"}, {"b", "b"}, clock, options);
  }
  Status send(uint64_t step) {
    return send_message(*a, {.kind = MessageKind::kHealth, .step = step}, {}, 1s);
  }

  ManualClock clock{ManualClock::Sleep::kAdvances};
  std::unique_ptr<FaultyLink> a, b;
};

struct Arrival {
  uint64_t step;
  TimePoint when;
  bool operator==(const Arrival&) const = default;
};

// Sends `count` messages a millisecond apart, then receives all that comes.
std::vector<Arrival> play(FaultOptions options, uint64_t count, Errc* end = nullptr) {
  Net net(options);
  for (uint64_t i = 0; i < count; ++i) {
    (void)net.send(i);
    net.clock.advance(1ms);
  }
  std::vector<Arrival> out;
  for (;;) {
    const auto head = net.b->receive_head(10s);
    if (!head.ok()) {
      if (end != nullptr) *end = head.status().code();
      return out;
    }
    out.push_back({head->step, net.clock.now()});
  }
}

TEST(FaultyInproc, DelaysKeepTheOrder) {
  const FaultOptions options{.seed = 5, .delay_min = 2ms, .delay_max = 50ms};
  Errc end;
  const auto got = play(options, 100, &end);
  EXPECT_EQ(end, Errc::kTimeout);
  ASSERT_EQ(got.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(got[i].step, i);
    EXPECT_GE(got[i].when.time_since_epoch(), i * 1ms + 2ms);
  }
}

TEST(FaultyInproc, ASeedReplays) {
  FaultOptions options{.seed = 5, .delay_max = 50ms, .duplicate_chance = 0.2, .reorder = true};
  const auto first = play(options, 100);
  EXPECT_EQ(first, play(options, 100));
  options.seed = 6;
  EXPECT_NE(first, play(options, 100));
}

TEST(FaultyInproc, ReordersAndDuplicatesWhenAskedTo) {
  const auto got = play({.seed = 7, .delay_max = 50ms, .duplicate_chance = 0.2, .reorder = true}, 200);
  std::set<uint64_t> steps;
  bool overtaken = false;
  for (size_t i = 0; i < got.size(); ++i) {
    steps.insert(got[i].step);
    overtaken |= i > 0 && got[i].step < got[i - 1].step;
  }
  EXPECT_EQ(steps.size(), 200u) << "none is lost";
  EXPECT_GT(got.size(), 210u);
  EXPECT_LT(got.size(), 270u);
  EXPECT_TRUE(overtaken);
}

TEST(FaultyInproc, ABreakIsSeenByBothAndLosesOnlyTheEnd) {
  Net net({.seed = 3, .delay_min = 1ms, .delay_max = 5ms, .break_chance = 0.05});
  Status status;
  uint64_t sent = 0;
  for (; status.ok() && sent < 1000; ++sent) {
    status = net.send(sent);
    net.clock.advance(1ms);
  }
  EXPECT_EQ(status.code(), Errc::kPeerLost);
  uint64_t next = 0;
  for (;;) {
    const auto head = net.b->receive_head(1s);
    if (!head.ok()) {
      EXPECT_EQ(head.status().code(), Errc::kPeerLost);
      break;
    }
    EXPECT_EQ(head->step, next++);
  }
  EXPECT_LT(next, sent);
  EXPECT_EQ(net.a->receive_head(1s).status().code(), Errc::kPeerLost);
}

TEST(FaultyInproc, CloseArrivesAfterWhatWasSent) {
  Net net({.seed = 1, .delay_min = 10ms, .delay_max = 20ms});
  ASSERT_TRUE(net.send(1).ok());
  net.a->close();
  EXPECT_EQ(net.send(2).code(), Errc::kCancelled);
  EXPECT_EQ(net.b->receive_head(1s)->step, 1u);
  EXPECT_EQ(net.b->receive_head(1s).status().code(), Errc::kPeerLost);
}

TEST(FaultyInproc, SilenceIsNoticedOnlyByTime) {
  Net net({.seed = 1, .delay_min = 10ms, .delay_max = 20ms});
  ASSERT_TRUE(net.send(1).ok());
  net.a->go_silent();
  EXPECT_TRUE(net.send(2).ok());
  EXPECT_EQ(net.b->next_arrival(), std::nullopt);
  const TimePoint before = net.clock.now();
  EXPECT_EQ(net.b->receive_head(3s).status().code(), Errc::kTimeout);
  EXPECT_EQ(net.clock.now() - before, 3s);
}

TEST(FaultyInproc, NextArrivalIsForEventLoops) {
  Net net({.seed = 1, .delay_min = 10ms, .delay_max = 10ms});
  EXPECT_EQ(net.b->next_arrival(), std::nullopt);
  ASSERT_TRUE(net.send(1).ok());
  EXPECT_EQ(net.b->next_arrival(), net.clock.now() + 10ms);
  EXPECT_EQ(net.b->receive_head(0s).status().code(), Errc::kTimeout);
  net.clock.advance(10ms);
  EXPECT_EQ(net.b->receive_head(0s)->step, 1u);
}

}  // namespace
}  // namespace butterfly::cluster::testing
