#include "model/arch/recurrent_share.h"

#include <algorithm>

#include "base/checked.h"

namespace butterfly::model {

nn::ShardOwners mixer_owners(const GroupShare& group, const ModelFile& file, const std::string& stem,
                             size_t cols, size_t out) {
  const NamedTensor* tensor = file.find(stem + ".weight");
  if (!group || tensor == nullptr) return {};  // who loads it says what is missing
  nn::ShardOwners owners = shards_of(group, &LayerShare::heads, tensor->dtype, cols, out);
  if (owners.shards().count() < 2) return {};
  return owners;
}

std::vector<MemberRange> DeltaNetPart::channels(const graph::GatedDeltaShape& whole) const {
  const size_t keys = whole.key_heads * whole.key_dim;
  std::vector<MemberRange> ranges;
  for (const size_t first : {size_t{0}, keys})
    for (const MemberRange& heads : key_heads)
      ranges.push_back({first + heads.begin * whole.key_dim, first + heads.end * whole.key_dim});
  ranges.push_back(
      {2 * keys + value_heads.begin * whole.value_dim, 2 * keys + value_heads.end * whole.value_dim});
  return ranges;
}

DeltaNetPart delta_net_part(const graph::GatedDeltaShape& whole, const nn::ShardOwners& owners) {
  if (!owners)
    return {.shape = whole, .value_heads = {0, whole.value_heads}, .key_heads = {{0, whole.key_heads}}};
  DeltaNetPart part{.shape = whole, .value_heads = {}, .key_heads = {}};
  const MemberRange columns = owners.columns();
  if (columns.empty()) {
    part.shape.key_heads = part.shape.value_heads = 0;
    return part;
  }
  const MemberRange heads{columns.begin / whole.value_dim, ceil_div(columns.end, whole.value_dim)};
  part.value_heads = heads;
  part.columns_before = columns.begin - heads.begin * whole.value_dim;
  part.shape.value_heads = heads.count();
  if (whole.tiled) {
    // Neighbours take neighbours, the first one behind the last.
    const size_t first = heads.begin % whole.key_heads, count = std::min(heads.count(), whole.key_heads);
    const size_t last = std::min(whole.key_heads, first + count);
    part.key_heads = {{first, last}, {0, count - (last - first)}};
    part.shape.key_heads = count;
  } else {
    const size_t group = whole.value_heads / whole.key_heads;
    const MemberRange keys{heads.begin / group, ceil_div(heads.end, group)};
    part.key_heads = {keys};
    part.shape.key_heads = keys.count();
    part.shape.group = group;
    part.shape.heads_before = heads.begin - keys.begin * group;
  }
  return part;
}

std::vector<MemberRange> SelectivePart::channels(const graph::SelectiveStateShape& whole) const {
  const size_t inner = whole.heads * whole.head_dim, written = whole.groups * whole.state_dim;
  std::vector<MemberRange> ranges = {{heads.begin * whole.head_dim, heads.end * whole.head_dim}};
  for (const size_t first : {inner, inner + written})
    ranges.push_back({first + groups.begin * whole.state_dim, first + groups.end * whole.state_dim});
  return ranges;
}

SelectivePart selective_part(const graph::SelectiveStateShape& whole, const nn::ShardOwners& owners) {
  SelectivePart part{.shape = whole, .groups = {0, whole.groups}, .heads = {0, whole.heads}};
  if (!owners) return part;
  const size_t group = whole.heads / whole.groups, group_columns = group * whole.head_dim;
  for (size_t member = 0; member < owners.of.size(); ++member)
    part.gathers |= owners.columns(member).begin % group_columns != 0;
  const MemberRange columns = owners.columns();
  part.heads = part.groups = {};
  if (!columns.empty()) {
    part.heads = {columns.begin / whole.head_dim, ceil_div(columns.end, whole.head_dim)};
    part.groups = {part.heads.begin / group, ceil_div(part.heads.end, group)};
    part.columns_before = columns.begin - part.heads.begin * whole.head_dim;
  }
  part.shape.heads = part.heads.count();
  part.shape.groups = part.groups.count();
  part.shape.group = group;
  part.shape.heads_before = part.heads.begin - part.groups.begin * group;
  return part;
}

}  // namespace butterfly::model
