// Members have the heads that reach into their columns, and what those read, whatever the numbers.
#include "model/arch/recurrent_share.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace butterfly::model {
namespace {

// Up to five members with cuts anywhere in eight units; every shard of [128, cols] is somebody's.
nn::ShardOwners owners_of(uint64_t seed, size_t cols) {
  std::vector<uint32_t> cuts = {0, 8};
  for (uint64_t i = 0; i < 1 + seed % 4; ++i)
    cuts.push_back(static_cast<uint32_t>(random_u64(seed, 1, i) % 9));
  std::ranges::sort(cuts);
  GroupShare group;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const UnitRange range{cuts[i], cuts[i + 1], 8};
    group.members.push_back({range, range, range, range});
  }
  return shards_of(group, &LayerShare::heads, DType::kQ8_0, cols, 128);
}

std::vector<size_t> listed(const std::vector<MemberRange>& ranges) {
  std::vector<size_t> all;
  for (const MemberRange& range : ranges)
    for (size_t i = range.begin; i < range.end; ++i) all.push_back(i);
  return all;
}

TEST(RecurrentShare, ValueHeadsFindTheirKeyHeads) {
  size_t turned = 0, inside_a_group = 0, inside_a_head = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const size_t key_heads = 1 + random_u64(seed, 2, 0) % 6, group = 1 + random_u64(seed, 2, 1) % 4;
    const graph::GatedDeltaShape whole{.place = {},
                                       .key_heads = key_heads,
                                       .value_heads = key_heads * group,
                                       .key_dim = 16,
                                       .value_dim = 16 * (1 + random_u64(seed, 2, 2) % 6),
                                       .tiled = seed % 2 == 0,
                                       .scale = 1,
                                       .a = nullptr,
                                       .dt = nullptr};
    nn::ShardOwners owners = owners_of(seed, whole.value_heads * whole.value_dim);
    for (owners.self = 0; owners.self < owners.of.size(); ++owners.self) {
      const DeltaNetPart part = delta_net_part(whole, owners);
      const MemberRange columns = owners.columns();
      ASSERT_EQ(part.value_heads.empty(), columns.empty());
      if (columns.empty()) continue;
      EXPECT_EQ(part.value_heads.begin * whole.value_dim + part.columns_before, columns.begin);
      EXPECT_GE(part.value_heads.end * whole.value_dim, columns.end);
      EXPECT_GT(columns.end + whole.value_dim, part.value_heads.end * whole.value_dim);
      const std::vector<size_t> keys = listed(part.key_heads);
      ASSERT_EQ(part.shape.value_heads, part.value_heads.count());
      ASSERT_EQ(part.shape.key_heads, keys.size());
      std::vector<size_t> used(keys.size());
      for (size_t h = 0; h < part.shape.value_heads; ++h) {
        const size_t local = part.shape.key_head_of(h);
        ASSERT_LT(local, keys.size());
        ++used[local];
        EXPECT_EQ(keys[local], whole.key_head_of(part.value_heads.begin + h)) << "seed " << seed;
      }
      EXPECT_EQ(std::ranges::count(used, 0u), 0) << "key heads that nobody asked for, seed " << seed;
      // Where its channels are in the whole layer: queries, keys, values.
      std::vector<size_t> channels;
      for (const size_t first : {size_t{0}, key_heads * 16})
        for (const size_t head : keys)
          for (size_t c = 0; c < 16; ++c) channels.push_back(first + head * 16 + c);
      for (size_t c = part.value_heads.begin * whole.value_dim; c < part.value_heads.end * whole.value_dim;
           ++c)
        channels.push_back(2 * key_heads * 16 + c);
      EXPECT_EQ(listed(part.channels(whole)), channels);
      turned += part.key_heads.size() > 1 && !part.key_heads[1].empty();
      inside_a_group += part.shape.heads_before > 0;
      inside_a_head += part.columns_before > 0;
    }
  }
  EXPECT_GT(turned, 20u);
  EXPECT_GT(inside_a_group, 20u);
  EXPECT_GT(inside_a_head, 20u);
}

TEST(RecurrentShare, SelectiveHeadsFindTheirGroups) {
  size_t gathering = 0, apart = 0, inside_a_group = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const size_t groups = 1 + random_u64(seed, 3, 0) % 8, of_group = 1 + random_u64(seed, 3, 1) % 4;
    const graph::SelectiveStateShape whole{.place = {},
                                           .heads = groups * of_group,
                                           .head_dim = 16 * (1 + random_u64(seed, 3, 2) % 6),
                                           .groups = groups,
                                           .state_dim = 8,
                                           .a = nullptr,
                                           .dt = nullptr,
                                           .skip = nullptr};
    const size_t inner = whole.heads * whole.head_dim, of_columns = of_group * whole.head_dim;
    nn::ShardOwners owners = owners_of(seed, inner);
    bool gathers = false;
    for (size_t member = 0; member < owners.of.size(); ++member)
      gathers |= owners.columns(member).begin % of_columns != 0;
    for (owners.self = 0; owners.self < owners.of.size(); ++owners.self) {
      const SelectivePart part = selective_part(whole, owners);
      const MemberRange columns = owners.columns();
      EXPECT_EQ(part.gathers, gathers) << "all know it";
      ASSERT_EQ(part.shape.heads, part.heads.count());
      ASSERT_EQ(part.shape.groups, part.groups.count());
      ASSERT_EQ(part.heads.empty(), columns.empty());
      if (columns.empty()) continue;
      EXPECT_EQ(part.heads.begin * whole.head_dim + part.columns_before, columns.begin);
      EXPECT_LT(part.columns_before, whole.head_dim);
      EXPECT_EQ(part.heads.end, (columns.end + whole.head_dim - 1) / whole.head_dim);
      for (size_t h = 0; h < part.shape.heads; ++h)
        EXPECT_EQ(part.groups.begin + part.shape.group_of(h), whole.group_of(part.heads.begin + h));
      EXPECT_EQ(part.shape.group_of(part.shape.heads - 1) + 1, part.shape.groups);
      if (!gathers) {
        EXPECT_EQ(part.heads.count(), part.groups.count() * of_group) << "whole groups";
        EXPECT_EQ(part.columns_before, 0u);
      }
      std::vector<size_t> channels;
      for (size_t c = part.heads.begin * whole.head_dim; c < part.heads.end * whole.head_dim; ++c)
        channels.push_back(c);
      for (const size_t first : {inner, inner + groups * 8})
        for (size_t c = part.groups.begin * 8; c < part.groups.end * 8; ++c) channels.push_back(first + c);
      EXPECT_EQ(listed(part.channels(whole)), channels);
      inside_a_group += part.shape.heads_before > 0;
    }
    ++(gathers ? gathering : apart);
  }
  EXPECT_GT(gathering, 20u);
  EXPECT_GT(apart, 20u);
  EXPECT_GT(inside_a_group, 20u);
}

}  // namespace
}  // namespace butterfly::model
