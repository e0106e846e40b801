// Walks activation rows and panels in tiles. The tile size changes the speed, never the bits.
#if defined(BUTTERFLY_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_TILE_INL_H_
#undef BUTTERFLY_KERNELS_TILE_INL_H_
#else
#define BUTTERFLY_KERNELS_TILE_INL_H_
#endif

#include <algorithm>

#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/dot-inl.h"
#include "kernels/tiles/matmul_job.h"
#include "kernels/tiles/shards-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// One vector of a 64-byte chunk: four values each of kVF rows.
HWY_INLINE V8 LoadChunk(const uint8_t* from, size_t part) {
  V8 v = hn::LoadU(D8(), from + part * (kVF * 4));
#if HWY_TARGET == HWY_AVX3_DL
  // Into a register, once: GCC would rather load it again for every use (a line of fifth bits seven times),
  // and each of these loads waits for the line that one prefetch to the second level has brought near.
  asm("" : "+v"(v.raw));
#endif
  return v;
}
HWY_INLINE V8 ByteBits(V8 v, uint8_t mask) { return hn::And(v, hn::Set(D8(), mask)); }
HWY_INLINE V8 HighNibbles(V8 both) {
  return ByteBits(hn::BitCast(D8(), hn::ShiftRight<4>(hn::BitCast(D16(), both))), 15);
}
// The bit at `bit` of each byte group moved to bit 4; shifts cross bytes in 16-bit lanes, the mask drops what
// does not belong.
template <int kBit>
HWY_INLINE V8 MoveToBit4(V8 v, uint8_t mask) {
  const auto wide = hn::BitCast(D16(), v);
  if constexpr (kBit < 4) return ByteBits(hn::BitCast(D8(), hn::ShiftLeft<4 - kBit>(wide)), mask);
  if constexpr (kBit > 4)
    return ByteBits(
        hn::BitCast(D8(), hn::ShiftRight<kBit - 4>(hn::BitCast(hn::RebindToUnsigned<D16>(), wide))), mask);
  return ByteBits(v, mask);
}

// Bit `chunk` of each byte as 16 or 0. `chunk` is a constant after unrolling.
HWY_INLINE V8 FifthBit(V8 bits, size_t chunk) {
  switch (chunk) {
    case 0:
      return MoveToBit4<0>(bits, 0x10);
    case 1:
      return MoveToBit4<1>(bits, 0x10);
    case 2:
      return MoveToBit4<2>(bits, 0x10);
    case 3:
      return MoveToBit4<3>(bits, 0x10);
    case 4:
      return MoveToBit4<4>(bits, 0x10);
    case 5:
      return MoveToBit4<5>(bits, 0x10);
    case 6:
      return MoveToBit4<6>(bits, 0x10);
    default:
      return MoveToBit4<7>(bits, 0x10);
  }
}

// kM activation rows: quantised parts, or floats.
template <size_t kM>
struct ActTile {
  const int8_t* q[kM];
  const float* d[kM];  // scales; for ActKind::kF32 the values
  const int16_t* sums[kM];

  HWY_INLINE ActTile(ActKind kind, const MatmulJob& job, size_t row) {
    const ActLayout layout = act_layout(kind, job.cols);
    for (size_t m = 0; m < kM; ++m) {
      const std::byte* from = job.acts + (row + m) * job.act_stride;
      q[m] = reinterpret_cast<const int8_t*>(from);
      d[m] = reinterpret_cast<const float*>(from + layout.scales_offset);
      sums[m] = reinterpret_cast<const int16_t*>(from + layout.sums_offset);
    }
  }
  // Sum of the 32 activations of sub-block `sub`.
  HWY_INLINE int32_t Sum32(size_t m, size_t sub) const { return sums[m][2 * sub] + sums[m][2 * sub + 1]; }
};

// Prefetches the weights of the next panel while this one is multiplied, at the same pace: without it one
// thread reads 4-bit weights at two thirds of what memory gives (Sapphire Rapids; hints to the second level,
// since the first is too small for a whole panel ahead). Line by line in address order, whatever stands
// there. The pace is kept to the byte: where blocks are not whole lines, a rounded-up line for each of them
// prefetches a panel too early and then nothing until the next, which costs five-bit types a tenth.
class PanelPrefetch {
 public:
  // `from` null: nothing is prefetched.
  HWY_INLINE PanelPrefetch(const std::byte* from, size_t bytes)
      : at_(from), until_(from), end_(from == nullptr ? from : from + bytes) {}
  HWY_INLINE void Lines(size_t bytes) {
    until_ = std::min(end_, until_ + bytes);
    for (; at_ < until_; at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const std::byte* at_;
  const std::byte* until_;
  const std::byte* end_;
};

// Where a tile's results go; rows beyond the matrix (padding of the last panel) are dropped.
struct TileOut {
  float* y;
  size_t stride;
  size_t valid;           // rows of this panel that exist
  size_t subtree_stride;  // from the result of one subtree to the next

  HWY_INLINE TileOut Subtree(size_t index) const {
    return {y + index * subtree_stride, stride, valid, subtree_stride};
  }

  HWY_INLINE void Store(size_t m, size_t part, VF v) const {
    float* to = y + m * stride + part * kVF;
    if ((part + 1) * kVF <= valid) {
      hn::StoreU(v, DF(), to);
      return;
    }
    alignas(64) float lanes[kVF];
    hn::Store(v, DF(), lanes);
    for (size_t i = part * kVF; i < valid; ++i) to[i - part * kVF] = lanes[i - part * kVF];
  }
  // What Store left there; zeros for rows that do not exist.
  HWY_INLINE VF Load(size_t m, size_t part) const {
    const float* from = y + m * stride + part * kVF;
    if ((part + 1) * kVF <= valid) return hn::LoadU(DF(), from);
    alignas(64) float lanes[kVF] = {};
    for (size_t i = part * kVF; i < valid; ++i) lanes[i - part * kVF] = from[i - part * kVF];
    return hn::Load(DF(), lanes);
  }
};

// Most activation rows per tile: accumulators must fit the registers (32 of them with AVX-512 and NEON).
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr size_t kTileRows = 8;
#elif HWY_TARGET == HWY_AVX2
inline constexpr size_t kTileRows = 6;
#else
inline constexpr size_t kTileRows = 4;
#endif
// Activation rows kept near while all panels pass by.
inline constexpr size_t kRowsPerPass = 96;

// kM activation rows times parts [part_begin, part_begin + kPasses) of one panel. A Tile gives kAct, the
// columns kBlock of a block, its Panel, and Blocks(), which adds all blocks to accumulators and calls
// cuts.Behind() for each.
template <class Tile, bool kSharded, size_t kM, size_t kPasses>
HWY_INLINE void RunShards(const std::byte* panel_data, const MatmulJob& job, size_t part_begin,
                          const ActTile<kM>& acts, const TileOut& out, PanelPrefetch prefetch) {
  const typename Tile::Panel panel(panel_data, job.cols);
  const size_t blocks = job.cols / Tile::kBlock;
  VF acc[kM][kPasses];
  ZeroAll(acc);
  const auto store = [&](const TileOut& to) HWY_ATTR __attribute__((always_inline)) {
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) to.Store(m, part_begin + p, acc[m][p]);
  };
  if constexpr (!kSharded) {
    UncutBlocks uncut;
    Tile::template Blocks<kM, kPasses>(panel, blocks, part_begin, acts, prefetch, acc, uncut);
    store(out);
  } else {
    CutBlocks<Tile::kBlock, kM, kPasses> cuts(job.cuts);
    Tile::template Blocks<kM, kPasses>(panel, blocks, part_begin, acts, prefetch, acc, cuts);
    for (size_t subtree = 0, first = 0; subtree < job.cuts.subtree_count; ++subtree) {
      cuts.slots.Add(first, job.cuts.shards[subtree], acc);
      store(out.Subtree(subtree));
      first += job.cuts.shards[subtree];
    }
  }
}

// `first` tile of a panel: it meets the weights in memory, the others in the cache. kSharded: more than one
// shard.
template <class Tile, bool kSharded, size_t kM>
HWY_INLINE void RunTile(const MatmulJob& job, size_t row, size_t panel_index, bool first_tile) {
  const std::byte* panel_data = job.panels + panel_index * job.panel_bytes;
  const size_t first = panel_index * kPanelRows;
  const TileOut out{job.y + row * job.y_stride + first, job.y_stride, std::min(kPanelRows, job.rows - first),
                    job.subtree_stride};
  const ActTile<kM> acts(Tile::kAct, job, row);
  const auto prefetch = [&](bool wanted) {
    return PanelPrefetch(wanted && panel_index + 1 < job.panel_end ? panel_data + job.panel_bytes : nullptr,
                         job.panel_bytes);
  };
  if constexpr (kM == 1) {
    RunShards<Tile, kSharded, 1, kParts>(panel_data, job, 0, acts, out, prefetch(first_tile));
  } else {
    for (size_t part = 0; part < kParts; ++part)
      RunShards<Tile, kSharded, kM, 1>(panel_data, job, part, acts, out, prefetch(first_tile && part == 0));
  }
}

template <class Tile, bool kSharded>
HWY_NOINLINE void RunPanelsAs(const MatmulJob& job) {
  for (size_t row0 = 0; row0 < job.m; row0 += kRowsPerPass) {
    const size_t row1 = std::min(job.m, row0 + kRowsPerPass);
    for (size_t panel_index = job.panel_begin; panel_index < job.panel_end; ++panel_index) {
      size_t row = row0;
      for (; row + kTileRows <= row1; row += kTileRows)
        RunTile<Tile, kSharded, kTileRows>(job, row, panel_index, row == row0);
      if constexpr (kTileRows > 4)
        for (; row + 4 <= row1; row += 4) RunTile<Tile, kSharded, 4>(job, row, panel_index, row == row0);
      for (; row + 2 <= row1; row += 2) RunTile<Tile, kSharded, 2>(job, row, panel_index, row == row0);
      for (; row < row1; ++row) RunTile<Tile, kSharded, 1>(job, row, panel_index, row == row0);
    }
  }
}

// Products of one chain do not pay for shards, not even in the registers of their loop.
template <class Tile>
HWY_INLINE void RunPanels(const MatmulJob& job) {
  if (job.cuts.shard_count() == 1) return RunPanelsAs<Tile, false>(job);
  RunPanelsAs<Tile, true>(job);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
