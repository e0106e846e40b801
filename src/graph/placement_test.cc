// Placements against brute force: what place() makes is good and near LOAD, and what is bad is found.
#include "graph/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/checked.h"
#include "graph/testing/network_lives.h"

namespace butterfly::graph {
namespace {

// Every pair compared.
bool brute_force_ok(const std::vector<BufferLife>& buffers, const Placement& placement) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (placement.offsets[i] % 64 != 0 || placement.offsets[i] + buffers[i].bytes > placement.bytes)
      return false;
    for (size_t j = 0; j < i; ++j) {
      const bool same_time = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const bool same_place = placement.offsets[i] < placement.offsets[j] + buffers[j].bytes &&
                              placement.offsets[j] < placement.offsets[i] + buffers[i].bytes;
      if (same_time && same_place && buffers[i].bytes > 0 && buffers[j].bytes > 0) return false;
    }
  }
  return true;
}

size_t brute_force_load(const std::vector<BufferLife>& buffers) {
  size_t most = 0;
  for (uint32_t step = 0; step < 64; ++step) {
    size_t live = 0;
    for (const BufferLife& b : buffers)
      if (b.first <= step && step <= b.last) live += round_up(b.bytes, 64);
    most = std::max(most, live);
  }
  return most;
}

std::vector<BufferLife> arbitrary_buffers() {
  const auto count = *rc::gen::inRange(0, 40);
  std::vector<BufferLife> buffers;
  for (int i = 0; i < count; ++i) {
    const auto first = *rc::gen::inRange<uint32_t>(0, 20);
    buffers.push_back({*rc::gen::inRange<size_t>(0, 2000), first, first + *rc::gen::inRange<uint32_t>(0, 8)});
  }
  return buffers;
}

TEST(Placement, IsGood) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    const Placement placement = place(buffers, {.work_max = 200'000});
    RC_ASSERT(brute_force_ok(buffers, placement));
    RC_ASSERT(placement_error(buffers, placement).empty());
    RC_ASSERT(live_bytes_max(buffers) == brute_force_load(buffers));
    RC_ASSERT(placement.bytes >= live_bytes_max(buffers));
  }));
}

TEST(Placement, EveryOrderIsGood) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    for (const std::string_view order : placement_orders()) {
      const Placement placement = place_by(order, buffers);
      RC_ASSERT(brute_force_ok(buffers, placement));
      RC_ASSERT(placement_error(buffers, placement).empty());
    }
  }));
}

// The validator says no exactly when comparing every pair says no; half of these placements are bad.
TEST(Placement, TheValidatorAgreesWithBruteForceOnCorruptedPlacements) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    RC_PRE(!buffers.empty());
    Placement placement = place_by("size", buffers);
    const auto victims = *rc::gen::inRange(1, 4);
    for (int i = 0; i < victims; ++i) {
      const auto victim = *rc::gen::inRange<size_t>(0, buffers.size());
      placement.offsets[victim] =
          *rc::gen::inRange<size_t>(0, 256) * (*rc::gen::inRange(0, 8) == 0 ? 32 : 64);
    }
    const bool good = brute_force_ok(buffers, placement);
    RC_CLASSIFY(good);
    RC_ASSERT(placement_error(buffers, placement).empty() == good);
  }));
}

// A buffer laid over one that lives at the same time is always found, wherever both stand in the list.
TEST(Placement, TheValidatorRejectsEveryOverlap) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    Placement placement = place_by("area", buffers);
    placement.bytes *= 2;
    size_t broken = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      for (size_t j = 0; j < buffers.size(); ++j) {
        if (i == j || buffers[i].bytes == 0 || buffers[j].bytes == 0) continue;
        if (buffers[i].first > buffers[j].last || buffers[j].first > buffers[i].last) continue;
        Placement bad = placement;
        bad.offsets[i] = placement.offsets[j];
        RC_ASSERT(!placement_error(buffers, bad).empty());
        ++broken;
      }
    }
    RC_CLASSIFY(broken > 0);
  }));
}

TEST(Placement, AChainNeedsTwoBuffers) {
  std::vector<BufferLife> buffers;
  for (uint32_t i = 0; i < 50; ++i) buffers.push_back({1000, i, i + 1});
  EXPECT_EQ(live_bytes_max(buffers), 2 * round_up(1000, 64));
  EXPECT_EQ(place(buffers).bytes, 2 * round_up(1000, 64));
}

TEST(Placement, ErrorsNameTheBuffers) {
  const std::vector<BufferLife> buffers = {{100, 0, 2}, {100, 1, 3}};
  const auto error = [&](std::vector<size_t> offsets, size_t bytes) {
    return placement_error(buffers, {std::move(offsets), bytes});
  };
  EXPECT_THAT(error({0, 64}, 256), ::testing::HasSubstr("overlap at step 1"));
  EXPECT_THAT(error({0, 192}, 256), ::testing::HasSubstr("does not fit the arena of 256"));
  EXPECT_THAT(error({0, SIZE_MAX - 63}, 256), ::testing::HasSubstr("does not fit the arena of 256"));
  EXPECT_THAT(error({0, 130}, 512), ::testing::HasSubstr("not aligned"));
  EXPECT_THAT(error({0}, 512), ::testing::HasSubstr("1 offsets for 2 buffers"));
  EXPECT_EQ(error({0, 128}, 256), "");
  EXPECT_THAT(placement_error(std::vector<BufferLife>{{1, 2, 1}}, {{0}, 64}),
              ::testing::HasSubstr("ends before it begins"));
}

// The case of nested neighbours that a check of neighbours by offset misses: 0 and 2 lie apart, 1 between
// them lives later.
TEST(Placement, ALaterBufferBetweenTwoHidesNothing) {
  const std::vector<BufferLife> buffers = {{6400, 0, 2}, {640, 5, 6}, {640, 0, 2}};
  EXPECT_THAT(placement_error(buffers, {{0, 640, 1920}, 6400}), ::testing::HasSubstr("overlap at step 0"));
}

// No placement reaches LOAD here, so the whole search runs; it must end and stay good.
TEST(Placement, ASearchThatCannotWinEnds) {
  const std::vector<BufferLife> odd = {{128, 0, 1}, {64, 1, 2},  {128, 2, 3}, {64, 3, 4}, {128, 4, 4},
                                       {64, 0, 0},  {192, 5, 5}, {64, 4, 5},  {64, 1, 1}};
  const Placement placement = place(odd, {.good_enough = 0.5, .work_max = 100'000});
  EXPECT_EQ(placement_error(odd, placement), "");
  EXPECT_LE(placement.bytes, 2 * live_bytes_max(odd));
}

TEST(Placement, TheSearchBeatsEveryGreedyOrderSomewhere) {
  size_t wins = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto buffers = testing::many_lives(120, seed);
    size_t greedy = SIZE_MAX;
    for (const std::string_view order : placement_orders())
      greedy = std::min(greedy, place_by(order, buffers).bytes);
    const Placement placement = place(buffers, {.good_enough = 1.0, .work_max = 3'000'000});
    EXPECT_LE(placement.bytes, greedy);
    EXPECT_EQ(placement_error(buffers, placement), "");
    wins += placement.bytes < greedy;
  }
  EXPECT_GT(wins, 0u);
}

TEST(Placement, IsTheSameEveryTime) {
  const auto buffers = testing::many_lives(300, 1);
  EXPECT_EQ(place(buffers).offsets, place(buffers).offsets);
}

TEST(Placement, KnownNetworksStayWithinOnePercentOfLoad) {
  for (const auto& network : testing::network_lives()) {
    const Placement placement = place(network.buffers);
    EXPECT_EQ(placement_error(network.buffers, placement), "") << network.name;
    EXPECT_LE(static_cast<double>(placement.bytes),
              1.01 * static_cast<double>(live_bytes_max(network.buffers)))
        << network.name;
  }
}

// Terabytes still fit the packer's 32-bit units.
TEST(Placement, SumsBeyond256GiB) {
  std::vector<BufferLife> buffers;
  for (uint32_t i = 0; i < 100; ++i) buffers.push_back({size_t{37} << 30, i, i + 3});
  const Placement placement = place(buffers);
  EXPECT_EQ(placement_error(buffers, placement), "");
  EXPECT_LE(placement.bytes, (size_t{4} * 37 << 30) + (size_t{4} << 20));
}

}  // namespace
}  // namespace butterfly::graph
