#include "model/arch/group_share.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "kernels/tiles/matmul_job.h"
#include "model/arch/network.h"

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

AttentionPart attention_part(const HeadCounts& counts, const nn::ShardOwners& owners) {
  const MemberRange columns = owners.columns();
  if (columns.empty()) return {};
  const size_t group = counts.heads / counts.kv_heads;
  AttentionPart part;
  part.heads = {columns.begin / counts.columns, ceil_div(columns.end, counts.columns)};
  part.kv_heads = {part.heads.begin / group, ceil_div(part.heads.end, group)};
  part.columns_before = columns.begin - part.heads.begin * counts.columns;
  return part;
}

void share_states(ModelConfig& config, const ModelFile& file, const GroupShare& group) {
  if (!group) return;
  const Architecture& architecture = architecture_of(file);
  std::vector<MemberRange> kept(config.states.size());
  for (size_t layer = 0; layer < config.states.size(); ++layer) {
    LayerState& state = config.states[layer];
    if (state.kind == StateKind::kRecurrent && architecture.share_state != nullptr)
      state = architecture.share_state(file, config, group, layer);
    const NamedTensor* out = file.find(fmt::format("blk.{}.attn_output.weight", layer));
    if (!state.attends() || out == nullptr || out->shape.rank() != 2)
      continue;  // who loads it says what is missing
    const auto columns = static_cast<size_t>(out->shape.back());
    const auto owners = shards_of(group, &LayerShare::heads, out->dtype, columns, config.dim);
    kept[layer] = attention_part({config.heads, state.kv_heads, columns / config.heads}, owners).kv_heads;
    state.kv_heads = kept[layer].count();
    if (state.kind == StateKind::kShared && !kept[layer].empty() && kept[layer] != kept[state.source])
      fail(Errc::kUnsupported,
           "{}: block {} reads keys of block {}, and a member of a group would have other heads of it: their "
           "attn_output are of types whose shards differ; use a chain",
           file.path().string(), layer, state.source);
  }
}

}  // namespace butterfly::model
