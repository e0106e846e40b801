// Units become things: each is one member's, whatever the numbers.
#include "model/arch/group_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;

GroupShare group_of(const std::vector<uint32_t>& cuts) {
  GroupShare group;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const UnitRange range{cuts[i], cuts[i + 1], cuts.back()};
    group.members.push_back({range, range, range, range});
  }
  return group;
}

TEST(GroupShare, EveryThingIsOneMembers) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<uint32_t> cuts = {0, static_cast<uint32_t>(1 + random_u64(seed, 1, 0) % 12)};
    for (uint64_t i = 0; i < seed % 6; ++i)
      cuts.push_back(static_cast<uint32_t>(random_u64(seed, 2, i) % (cuts[1] + 1)));
    std::ranges::sort(cuts);
    const GroupShare group = group_of(cuts);
    for (const size_t count : {1, 2, 4, 8, 30, 1000}) {
      size_t next = 0, next_row = 0;
      for (const MemberRange& range : things_of(group, &LayerShare::columns, count)) {
        ASSERT_EQ(range.begin, next) << "seed " << seed << ", " << count;
        next = range.end;
      }
      EXPECT_EQ(next, count);
      for (const MemberRange& range : rows_of(group, &LayerShare::vocabulary, count)) {
        ASSERT_EQ(range.begin, next_row);
        EXPECT_TRUE(range.end % 16 == 0 || range.end == count);
        next_row = range.end;
      }
      EXPECT_EQ(next_row, count);
    }
  }
}

// Eight heads of 80 columns, two KV heads; shards of 64 columns and once of 128.
TEST(GroupShare, HeadsThatReachIntoTheColumns) {
  const HeadCounts counts{.heads = 8, .kv_heads = 2, .columns = 80};
  GroupShare group = group_of({0, 3, 3, 8});
  const auto part = [&](size_t self) {
    group.self = self;
    return attention_part(counts, shards_of(group, &LayerShare::heads, DType::kQ8_0, 640, 128));
  };
  const AttentionPart first = part(0), none = part(1), last = part(2);
  EXPECT_EQ(first.heads, (MemberRange{0, 3}));  // 192 columns
  EXPECT_EQ(first.kv_heads, (MemberRange{0, 1}));
  EXPECT_EQ(first.columns_before, 0u);
  EXPECT_TRUE(none.heads.empty() && none.kv_heads.empty());
  EXPECT_EQ(last.heads, (MemberRange{2, 8})) << "the third head is in both";
  EXPECT_EQ(last.kv_heads, (MemberRange{0, 2}));
  EXPECT_EQ(last.columns_before, 32u);
}

}  // namespace
}  // namespace butterfly::model
