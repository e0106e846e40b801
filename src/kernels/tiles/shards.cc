#include "kernels/tiles/shards.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "kernels/tiles/activation_rows.h"

namespace butterfly::kernels {

size_t shard_unit(DType weights) { return std::max<size_t>(64, act_block(act_kind(weights))); }

Shards::Shards(size_t unit, size_t cols) : unit_(unit), cols_(cols) {
  const size_t units = (cols + unit - 1) / unit;
  count_ = std::bit_floor(std::clamp<size_t>(units, 1, kShardsMax));
}

size_t Shards::begin(size_t i) const {
  BF_DCHECK(i <= count_) << i << " of " << count_;
  const size_t units = (cols_ + unit_ - 1) / unit_;
  return std::min(cols_, i * units / count_ * unit_);
}

std::vector<Subtree> subtrees(size_t first, size_t last) {
  std::vector<Subtree> found;
  while (first < last) {
    // As many as the range holds, and as `first` allows: a subtree begins at a multiple of its size.
    const size_t fits = std::bit_floor(last - first);
    const size_t aligned = first == 0 ? fits : size_t{1} << std::countr_zero(first);
    found.push_back({first, std::min(fits, aligned)});
    first += found.back().count;
  }
  return found;
}

ShardCuts ShardCuts::none(size_t cols) {
  ShardCuts cuts;
  cuts.ends[0] = cols;
  return cuts;
}

ShardCuts ShardCuts::of(size_t unit, size_t cols) {
  return unit == 0 ? none(cols) : whole(Shards(unit, cols));
}

ShardCuts ShardCuts::whole(const Shards& shards) { return share(shards, 0, shards.count()); }

ShardCuts ShardCuts::share(const Shards& shards, size_t first, size_t last) {
  BF_CHECK(first < last && last <= shards.count())
      << "shards " << first << " to " << last << " of " << shards.count();
  ShardCuts cuts;
  cuts.subtree_count = 0;
  for (const Subtree& subtree : subtrees(first, last))
    cuts.shards[cuts.subtree_count++] = static_cast<uint8_t>(subtree.count);
  for (size_t i = first; i < last; ++i) cuts.ends[i - first] = shards.begin(i + 1) - shards.begin(first);
  return cuts;
}

size_t ShardCuts::shard_count() const {
  size_t count = 0;
  for (size_t i = 0; i < subtree_count; ++i) count += shards[i];
  return count;
}

}  // namespace butterfly::kernels
