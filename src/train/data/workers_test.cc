// A step ends when its items are finished; each runs once; exceptions and stress.
#include "train/data/workers.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace butterfly::train {
namespace {

TEST(Workers, EveryItemRunsOnceAndIsFinishedWhenRunReturns) {
  for (const size_t count : {1u, 2u, 4u, 16u, 64u}) {
    Workers workers(count);
    for (const size_t items : {0u, 1u, 3u, 256u, 1000u}) {
      std::vector<int> times(items, 0);  // plain ints: the sanitizer would see a run() that returns too early
      workers.run(items, [&](size_t worker, size_t item) {
        EXPECT_LT(worker, count);
        std::this_thread::yield();
        ++times[item];
      });
      for (const int n : times) EXPECT_EQ(n, 1);
    }
  }
}

TEST(Workers, ManySmallSteps) {
  Workers workers(3);
  uint64_t sum = 0;
  for (size_t step = 0; step < 3000; ++step) {
    uint64_t parts[5] = {};
    workers.run(5, [&](size_t, size_t item) { parts[item] = step + item; });
    sum += std::accumulate(std::begin(parts), std::end(parts), uint64_t{0});
  }
  EXPECT_EQ(sum, 5u * 2999 * 3000 / 2 + 3000 * 10);
}

TEST(Workers, TheFirstErrorIsThrownAndTheOthersStillRun) {
  Workers workers(2);
  std::atomic<int> ran{0};
  try {
    workers.run(20, [&](size_t, size_t item) {
      ran.fetch_add(1);
      if (item == 7 || item == 13) fail(Errc::kCorrupt, "item {}", item);
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "item 7");
  }
  EXPECT_EQ(ran.load(), 20);
  workers.run(3, [&](size_t, size_t) { ran.fetch_add(1); });  // and it goes on
  EXPECT_EQ(ran.load(), 23);
}

TEST(Workers, CountsWhatItsThreadsDo) {
  Workers workers(2);
  workers.run(8, [](size_t, size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  const WorkerTimes times = workers.times();
  EXPECT_GE(times.busy, std::chrono::milliseconds(8));
  EXPECT_GT(times.utilisation(), 0.0);
  EXPECT_LE(times.utilisation(), 1.0);
  workers.reset_times();
  EXPECT_EQ(workers.times().busy.count(), 0);
}

}  // namespace
}  // namespace butterfly::train
