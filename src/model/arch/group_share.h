// Which part of every layer a member of a group has, where several computers compute the same layers together
// (docs/decisions/0014-members-of-a-stage.md). What the shares say in units becomes heads, columns, experts
// and rows here.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/exchange.h"
#include "model/arch/model_config.h"
#include "nn/linear.h"

namespace butterfly::model {

using graph::MemberRange;

// Units [begin, end) of `units`.
struct UnitRange {
  uint32_t begin = 0, end = 1, units = 1;
  friend bool operator==(const UnitRange&, const UnitRange&) = default;
};

// Everything, unless it says otherwise.
struct LayerShare {
  UnitRange heads, columns, experts, vocabulary;
  friend bool operator==(const LayerShare&, const LayerShare&) = default;
};

// Each unit is one member's. A group of none or one is a computer that has all of its layers.
struct GroupShare {
  std::vector<LayerShare> members = {};
  size_t self = 0;

  explicit operator bool() const { return members.size() > 1; }
  friend bool operator==(const GroupShare&, const GroupShare&) = default;
};

// Of `count` things those of each member: thing i belongs to whoever has unit floor(i * units / count). So
// one share serves layers that have more or fewer of them than there are units.
std::vector<MemberRange> things_of(const GroupShare& group, UnitRange LayerShare::*kind, size_t count);
// The same for rows of a matrix, by whole panels.
std::vector<MemberRange> rows_of(const GroupShare& group, UnitRange LayerShare::*kind, size_t rows);
// The shards of a row-parallel layer [out, cols] of this type.
nn::ShardOwners shards_of(const GroupShare& group, UnitRange LayerShare::*kind, DType type, size_t cols,
                          size_t out);

// This member's part of attention whose output has these owners.
struct AttentionPart {
  MemberRange heads;     // query heads that reach into its columns of the output: perhaps a neighbour's too
  MemberRange kv_heads;  // theirs
  size_t columns_before = 0;  // of its first head, which are another member's
};
// Heads of a whole layer, and columns of one in its output.
struct HeadCounts {
  size_t heads, kv_heads, columns;
};
AttentionPart attention_part(const HeadCounts& counts, const nn::ShardOwners& owners);

// The states of `config` as this member keeps them: keys and values of its own heads, and their matrices in
// recurrent layers (recurrent_share.h). Throws Error kUnsupported where a layer would read keys of another
// one that this member does not have.
void share_states(ModelConfig& config, const ModelFile& file, const GroupShare& group);

}  // namespace butterfly::model
