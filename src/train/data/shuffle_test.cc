// Shuffles are permutations, differ by seed and epoch, and are the same for ever.
#include "train/data/shuffle.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <vector>

namespace butterfly::train {
namespace {

std::vector<uint64_t> all(uint64_t count, uint64_t seed, uint64_t epoch) {
  const Shuffle shuffle(count, seed, epoch);
  std::vector<uint64_t> items;
  for (uint64_t i = 0; i < count; ++i) items.push_back(shuffle[i]);
  return items;
}

TEST(Shuffle, IsOneToOne) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<uint64_t>(1, 3000);
    std::vector<int> seen(count, 0);
    for (const uint64_t item :
         all(count, *rc::gen::arbitrary<uint64_t>(), *rc::gen::inRange<uint64_t>(0, 9))) {
      RC_ASSERT(item < count);
      ++seen[item];
    }
    for (const int times : seen) RC_ASSERT(times == 1);
  }));
}

TEST(Shuffle, SeedAndEpochMatter) {
  EXPECT_NE(all(100, 1, 0), all(100, 1, 1));
  EXPECT_NE(all(100, 1, 0), all(100, 2, 0));
  EXPECT_EQ(all(100, 1, 5), all(100, 1, 5));
}

// Written down once: a change here would make old checkpoints go on with other data.
TEST(Shuffle, IsTheSameForEver) {
  EXPECT_EQ(all(10, 42, 0), (std::vector<uint64_t>{7, 0, 8, 4, 6, 5, 3, 1, 2, 9}));
}

// Over many epochs each item should stand at each place equally often (chi-square, 10 standard deviations).
TEST(Shuffle, EveryItemStandsEverywhere) {
  for (const uint64_t count : {2u, 3u, 5u, 8u, 11u}) {
    const uint64_t epochs = 4000;
    std::vector<double> times(count * count, 0);
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const Shuffle shuffle(count, 7, epoch);
      for (uint64_t i = 0; i < count; ++i) ++times[i * count + shuffle[i]];
    }
    const double expected = static_cast<double>(epochs) / static_cast<double>(count);
    double chi = 0;
    for (const double t : times) chi += (t - expected) * (t - expected) / expected;
    const auto freedom = static_cast<double>((count - 1) * (count - 1));
    EXPECT_LT(chi, freedom + 10 * std::sqrt(2 * freedom)) << count;
  }
}

// Neighbours must not stay neighbours: of 10,000 items about two keep the next one behind them.
TEST(Shuffle, NeighboursPart) {
  const auto items = all(10000, 3, 0);
  int together = 0;
  for (size_t i = 1; i < items.size(); ++i) together += items[i] == items[i - 1] + 1;
  EXPECT_LT(together, 12);
}

}  // namespace
}  // namespace butterfly::train
