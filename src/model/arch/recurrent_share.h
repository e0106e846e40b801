// Which part of a recurrent layer a member of a group has: the heads or channels that reach into its columns
// of the output product, with their state (docs/decisions/0014-members-of-a-stage.md).
#pragma once
#include <string>
#include <vector>

#include "model/arch/group_share.h"

namespace butterfly::model {

// Who has which shards of the output product `stem`.weight [out, cols] of a recurrent layer. Empty where
// every member has the whole layer: without a group, and where the product has one shard.
nn::ShardOwners mixer_owners(const GroupShare& group, const ModelFile& file, const std::string& stem,
                             size_t cols, size_t out);

// A part of linear attention. Without owners: all of it.
struct DeltaNetPart {
  graph::GatedDeltaShape shape;  // of what is here
  MemberRange value_heads;
  std::vector<MemberRange> key_heads;  // in the order in which `shape` has them
  size_t columns_before = 0;           // of the first value head, which are another member's

  // Columns of queries, keys and values that are here, in order, of those of the whole layer.
  std::vector<MemberRange> channels(const graph::GatedDeltaShape& whole) const;
};
DeltaNetPart delta_net_part(const graph::GatedDeltaShape& whole, const nn::ShardOwners& owners);

// A part of Mamba-2. Without owners: all of it.
struct SelectivePart {
  graph::SelectiveStateShape shape;  // of what is here
  MemberRange groups, heads;
  size_t columns_before = 0;  // of the first head, which are another member's
  bool gathers = false;       // outputs of some group are with several members

  // Columns of inputs, and of what groups write and read, that are here, of those of the whole layer.
  std::vector<MemberRange> channels(const graph::SelectiveStateShape& whole) const;
};
SelectivePart selective_part(const graph::SelectiveStateShape& whole, const nn::ShardOwners& owners);

}  // namespace butterfly::model
