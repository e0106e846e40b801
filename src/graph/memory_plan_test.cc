// Placements against brute force: what place() makes is good, and what is bad is found.
#include "graph/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/checked.h"

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

std::vector<BufferLife> arbitrary_buffers() {
  const auto count = *rc::gen::inRange(0, 40);
  std::vector<BufferLife> buffers;
  for (int i = 0; i < count; ++i) {
    const auto first = *rc::gen::inRange<uint32_t>(0, 20);
    buffers.push_back({*rc::gen::inRange<size_t>(0, 2000), first, first + *rc::gen::inRange<uint32_t>(0, 8)});
  }
  return buffers;
}

TEST(MemoryPlan, PlacementsAreGood) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    const Placement placement = place(buffers);
    RC_ASSERT(brute_force_ok(buffers, placement));
    RC_ASSERT(placement_error(buffers, placement).empty());
    RC_ASSERT(placement.bytes >= live_bytes_max(buffers));
  }));
}

TEST(MemoryPlan, TheValidatorAgreesWithBruteForceOnCorruptedPlacements) {
  EXPECT_TRUE(rc::check([] {
    const auto buffers = arbitrary_buffers();
    RC_PRE(!buffers.empty());
    Placement placement = place(buffers);
    const auto victim = *rc::gen::inRange<size_t>(0, buffers.size());
    placement.offsets[victim] = *rc::gen::inRange<size_t>(0, 64) * 32;
    RC_ASSERT(placement_error(buffers, placement).empty() == brute_force_ok(buffers, placement));
  }));
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<BufferLife> buffers;
  for (uint32_t i = 0; i < 50; ++i) buffers.push_back({1000, i, i + 1});
  EXPECT_EQ(live_bytes_max(buffers), 2 * round_up(1000, 64));
  EXPECT_EQ(place(buffers).bytes, 2 * round_up(1000, 64));
}

TEST(MemoryPlan, ErrorsNameTheBuffers) {
  const std::vector<BufferLife> buffers = {{100, 0, 2}, {100, 1, 3}};
  EXPECT_THAT(placement_error(buffers, {{0, 64}, 256}), testing::HasSubstr("overlap at step 1"));
  EXPECT_THAT(placement_error(buffers, {{0, 192}, 256}), testing::HasSubstr("the arena has 256"));
  EXPECT_THAT(placement_error(buffers, {{0, 130}, 512}), testing::HasSubstr("not aligned"));
  EXPECT_EQ(placement_error(buffers, {{0, 128}, 256}), "");
}

}  // namespace
}  // namespace butterfly::graph
