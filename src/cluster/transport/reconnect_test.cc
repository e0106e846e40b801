// Pauses between tries: growing, bounded, not in step; and when trying again makes no sense.
#include "cluster/transport/reconnect.h"

#include <gtest/gtest.h>

#include <vector>

#include "cluster/transport/inproc.h"

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;
using LinkResult = Result<std::unique_ptr<Link>>;

TEST(Backoff, GrowsToItsBoundAndStaysThere) {
  Backoff backoff(1, {.first = 100ms, .max = 2s});
  Duration whole = 100ms;
  for (int i = 0; i < 50; ++i) {
    const Duration pause = backoff.next();
    EXPECT_LE(pause, whole);
    EXPECT_GE(pause, whole / 2);
    whole = std::min<Duration>(2s, 2 * whole);
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), 100ms);
}

TEST(Backoff, SeedsDecide) {
  const auto pauses = [](uint64_t seed) {
    Backoff backoff(seed);
    std::vector<Duration> out;
    for (int i = 0; i < 10; ++i) out.push_back(backoff.next());
    return out;
  };
  EXPECT_EQ(pauses(1), pauses(1));
  EXPECT_NE(pauses(1), pauses(2));
}

struct ReconnectTest : ::testing::Test {
  ManualClock clock{ManualClock::Sleep::kAdvances};
  Backoff backoff{1};
  std::atomic<bool> stop{false};
  int tries = 0;

  LinkResult run(const std::function<LinkResult()>& connect, Duration time) {
    return connect_with_retries(
        [&]() -> LinkResult {
          ++tries;
          return connect();
        },
        backoff, clock, Deadline(clock, time), stop);
  }
};

TEST_F(ReconnectTest, TriesUntilItWorks) {
  const auto link = run(
      [&]() -> LinkResult {
        if (tries < 5) return {Errc::kPeerLost, "nobody"};
        return std::move(inproc_pair({"a", "a"}, {"b", "b"}).first);
      },
      60s);
  EXPECT_TRUE(link.ok());
  EXPECT_EQ(tries, 5);
  EXPECT_GT(clock.now().time_since_epoch(), 300ms);  // four pauses
}

TEST_F(ReconnectTest, GivesUpAtTheDeadlineWithTheLastError) {
  const auto link = run([]() -> LinkResult { return {Errc::kPeerLost, "nobody"}; }, 20s);
  EXPECT_EQ(link.status().text(), "nobody");
  EXPECT_EQ(clock.now().time_since_epoch(), 20s);
  EXPECT_GT(tries, 8);
  EXPECT_LT(tries, 25);
}

TEST_F(ReconnectTest, DoesNotRepeatWhatTimeDoesNotMend) {
  for (const Errc code : {Errc::kInvalidArgument, Errc::kUnsupported, Errc::kCorrupt}) {
    tries = 0;
    EXPECT_EQ(run([&]() -> LinkResult { return {code, "no"}; }, 60s).status().code(), code);
    EXPECT_EQ(tries, 1);
  }
}

TEST_F(ReconnectTest, StopsWhenTold) {
  const auto link = run(
      [&]() -> LinkResult {
        stop = tries == 3;
        return {Errc::kTimeout, "late"};
      },
      std::chrono::hours(1));
  EXPECT_EQ(link.status().code(), Errc::kCancelled);
  EXPECT_EQ(tries, 3);
}

}  // namespace
}  // namespace butterfly::cluster
