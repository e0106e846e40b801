// Sums of logical shards in vectors: where accumulators wait, and the tree over them.
#if defined(BUTTERFLY_KERNELS_SHARDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_SHARDS_INL_H_
#undef BUTTERFLY_KERNELS_SHARDS_INL_H_
#else
#define BUTTERFLY_KERNELS_SHARDS_INL_H_
#endif

#include "kernels/simd/simd-inl.h"
#include "kernels/tiles/shards.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The end of a tree: see kTreeNan.
HWY_INLINE VF TreeResult(VF sum) {
  return hn::IfThenElse(hn::IsNaN(sum), hn::BitCast(DF(), hn::Set(DU(), kTreeNan)), sum);
}

template <size_t kRows, size_t kVectors>
HWY_INLINE void ZeroAll(VF (&acc)[kRows][kVectors]) {
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t i = 0; i < kVectors; ++i) acc[m][i] = hn::Zero(DF());
}

// The sums of all shards of a tile, kRows x kVectors vectors each: at a cut accumulators are put aside,
// behind the last block the trees are added in a straight line.
template <size_t kRows, size_t kVectors>
class ShardSlots {
 public:
  HWY_INLINE ShardSlots() {}  // one that the compiler makes has no target

  HWY_INLINE void Put(size_t shard, const VF (&acc)[kRows][kVectors]) {
    float* to = sums_ + shard * kStep;
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) BF_UNROLL
    for (size_t i = 0; i < kVectors; ++i) hn::Store(acc[m][i], DF(), to + (m * kVectors + i) * kVF);
  }
  // The tree over `count` shards from `first` on.
  HWY_INLINE void Add(size_t first, size_t count, VF (&acc)[kRows][kVectors]) const {
    const float* from = sums_ + first * kStep;
    if (count == 8) return AddTree<8>(from, acc);
    if (count == 4) return AddTree<4>(from, acc);
    if (count == 2) return AddTree<2>(from, acc);
    AddTree<1>(from, acc);
  }
  // Shard `walk` is summed. Whether that was the last of its subtree: `acc` then holds the subtree's sums.
  HWY_INLINE bool Collect(const ShardWalk& walk, VF (&acc)[kRows][kVectors]) {
    if (walk.shards() == 1) return true;
    Put(walk.shard(), acc);
    if (!walk.last()) return false;
    Add(0, walk.shards(), acc);
    return true;
  }

 private:
  static constexpr size_t kStep = kRows * kVectors * kVF;  // floats of one shard

  template <size_t kCount>
  static HWY_INLINE void AddTree(const float* from, VF (&acc)[kRows][kVectors]) {
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) BF_UNROLL
    for (size_t i = 0; i < kVectors; ++i) {
      const VF sum = Sum<kCount>(from + (m * kVectors + i) * kVF);
      acc[m][i] = kCount == 1 ? sum : TreeResult(sum);
    }
  }
  template <size_t kCount>
  static HWY_INLINE VF Sum(const float* at) {
    if constexpr (kCount == 1) {
      return hn::Load(DF(), at);
    } else {
      return hn::Add(Sum<kCount / 2>(at), Sum<kCount / 2>(at + kCount / 2 * kStep));
    }
  }

  alignas(64) float sums_[kShardsMax * kStep];
};

// What a loop over blocks of kBlock columns does behind each of them. One loop over all shards: its pointers
// go on through the cuts, which costs a comparison a block and not their set-up a shard (a shard may be two
// blocks).
template <size_t kBlock, size_t kRows, size_t kVectors>
class CutBlocks {
 public:
  HWY_INLINE explicit CutBlocks(const ShardCuts& cuts)
      : ends_(cuts.ends.data()), left_(cuts.ends[0] / kBlock) {}
  HWY_INLINE void Behind(VF (&acc)[kRows][kVectors]) {
    if (HWY_LIKELY(--left_ != 0)) return;
    slots.Put(shard_, acc);
    ZeroAll(acc);
    left_ = (ends_[shard_ + 1] - ends_[shard_]) / kBlock;  // behind the last: of no block
    ++shard_;
  }
  ShardSlots<kRows, kVectors> slots;

 private:
  const size_t* ends_;
  size_t left_, shard_ = 0;  // blocks of this shard
};
// One chain.
struct UncutBlocks {
  template <class Acc>
  HWY_INLINE void Behind(Acc&) {}
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
