#include "model/arch/group_share.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "kernels/tiles/matmul_job.h"

namespace butterfly::model {

std::vector<MemberRange> things_of(const GroupShare& group, UnitRange LayerShare::*kind, size_t count) {
  std::vector<MemberRange> ranges;
  for (const LayerShare& member : group.members) {
    const UnitRange& range = member.*kind;
    ranges.push_back({ceil_div(range.begin * count, range.units), ceil_div(range.end * count, range.units)});
  }
  return ranges;
}

std::vector<MemberRange> rows_of(const GroupShare& group, UnitRange LayerShare::*kind, size_t rows) {
  auto ranges = things_of(group, kind, ceil_div(rows, kernels::kPanelRows));
  for (MemberRange& range : ranges)
    range = {std::min(rows, range.begin * kernels::kPanelRows),
             std::min(rows, range.end * kernels::kPanelRows)};
  return ranges;
}

nn::ShardOwners shards_of(const GroupShare& group, UnitRange LayerShare::*kind, DType type, size_t cols,
                          size_t out) {
  nn::ShardOwners owners{
      .of = {}, .self = group.self, .cols = cols, .unit = kernels::shard_unit(type), .out = out};
  owners.of = things_of(group, kind, owners.shards().count());
  return owners;
}

AttentionPart attention_part(const ModelConfig& config, const nn::ShardOwners& owners) {
  const MemberRange columns = owners.columns();
  if (columns.empty()) return {};
  const size_t group = config.heads / config.kv_heads;
  AttentionPart part;
  part.heads = {columns.begin / config.head_dim, ceil_div(columns.end, config.head_dim)};
  part.kv_heads = {part.heads.begin / group, ceil_div(part.heads.end, group)};
  part.columns_before = columns.begin - part.heads.begin * config.head_dim;
  return part;
}

void share_states(ModelConfig& config, const ModelFile& file, const GroupShare& group) {
  if (!group) return;
  for (size_t layer = 0; layer < config.states.size(); ++layer) {
    LayerState& state = config.states[layer];
    const NamedTensor* out = file.find(fmt::format("blk.{}.attn_output.weight", layer));
    if (state.kind == StateKind::kRecurrent || out == nullptr) continue;  // who loads it says what is missing
    const auto owners =
        shards_of(group, &LayerShare::heads, out->dtype, config.heads * config.head_dim, config.dim);
    state.kv_heads = attention_part(config, owners).kv_heads.count();
  }
}

}  // namespace butterfly::model
