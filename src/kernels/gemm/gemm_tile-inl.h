// The inner loops of gemm and conv2d: a tile of kRows x kTileCols outputs in registers, each a chain of FMAs.
//
// The columns' side is packed, [depth][kTileCols] floats, or rows of the caller's memory that are as wide.
// The rows' side is packed as well, or something that looks packed: kRows neighbours per step. (Rows that are
// read through pointers: conv2d_tile-inl.h.)
#if defined(BUTTERFLY_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_GEMM_TILE_INL_H_
#undef BUTTERFLY_KERNELS_GEMM_TILE_INL_H_
#else
#define BUTTERFLY_KERNELS_GEMM_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/gemm/gemm_prefetch-inl.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Accumulators, one row of weights and a broadcast fill the registers: 14 x 2 of 32, 6 x 2 of 16.
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr size_t kTileHeight = 14, kTileCols = 32;
#elif HWY_TARGET == HWY_AVX2
inline constexpr size_t kTileHeight = 6, kTileCols = 16;
#elif HWY_TARGET == HWY_NEON
inline constexpr size_t kTileHeight = 6, kTileCols = 16;
#else
inline constexpr size_t kTileHeight = 2, kTileCols = 16;
#endif
inline constexpr size_t kTileVectors = kTileCols / kVF;

// Where the chains start and what happens to their results.
enum class Chain {
  kFresh,     // from 0; stored
  kContinue,  // from what the output holds; stored
  kAdd,       // from 0; added to what the output holds
  kFirst,     // from 0; added to 0, as the first of several kAdd
};

// The outputs of a tile, in registers while it runs.
template <size_t kRows, size_t kVectors = kTileVectors>
struct Accumulators {
  VF v[kRows][kVectors];

  HWY_INLINE Accumulators() {}  // one that the compiler makes has no target
  // row(m): where the outputs of row m stand.
  template <class Row>
  HWY_INLINE void Begin(Row row, Chain chain) {
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) BF_UNROLL
    for (size_t n = 0; n < kVectors; ++n)
      v[m][n] = chain == Chain::kContinue ? hn::LoadU(DF(), row(m) + n * kVF) : hn::Zero(DF());
  }
  template <class Row>
  HWY_INLINE void End(Row row, Chain chain) const {
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) BF_UNROLL
    for (size_t n = 0; n < kVectors; ++n) {
      float* to = row(m) + n * kVF;
      VF result = v[m][n];
      if (chain == Chain::kAdd) result = hn::Add(hn::LoadU(DF(), to), result);
      if (chain == Chain::kFirst) result = hn::Add(hn::Zero(DF()), result);  // -0 becomes +0
      hn::StoreU(result, DF(), to);
    }
  }
};

// A stretch of the rows' side: step k has its kRows values at data + k * step.
struct Stretch {
  const float* data;
  size_t length;
};

// Several stretches after each other; `b` goes on through all of them, b_step floats per step: kTileCols if
// packed. Neither b nor c need be aligned.
template <size_t kRows>
HWY_NOINLINE void TileOfStretches(const Stretch* stretches, size_t stretch_count, size_t step, const float* b,
                                  size_t b_step, float* c, size_t c_stride, Chain chain,
                                  TilePrefetch<StridedRows>& prefetch) {
  const auto row = [c, c_stride](size_t m) HWY_ATTR { return c + m * c_stride; };
  Accumulators<kRows> acc;
  acc.Begin(row, chain);
  for (size_t s = 0; s < stretch_count; ++s) {
    const float* a = stretches[s].data;
    for (size_t left = stretches[s].length; left != 0;) {
      prefetch.Step();
      const size_t steps = std::min(left, kPrefetchSteps);
      left -= steps;
      for (const float* stop = a + steps * step; a != stop; a += step, b += b_step) {
        // Both come from the second cache, and a little sooner than its prefetcher thinks: 1 %.
        __builtin_prefetch(a + 24 * step, 0, 3);
        BF_UNROLL
        for (size_t n = 0; n < kTileCols; n += 16) __builtin_prefetch(b + 12 * b_step + n, 0, 3);
        VF w[kTileVectors];
        BF_UNROLL
        for (size_t n = 0; n < kTileVectors; ++n) w[n] = hn::LoadU(DF(), b + n * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kRows; ++m) {
          const VF x = hn::Set(DF(), a[m]);
          BF_UNROLL
          for (size_t n = 0; n < kTileVectors; ++n) acc.v[m][n] = Fma(x, w[n], acc.v[m][n]);
        }
      }
    }
  }
  acc.End(row, chain);
}

// The functions for 1 .. kTileHeight rows.
using StretchTile = void (*)(const Stretch*, size_t, size_t, const float*, size_t, float*, size_t, Chain,
                             TilePrefetch<StridedRows>&);
template <size_t... kRow>
HWY_INLINE StretchTile StretchTileIn(size_t rows, std::index_sequence<kRow...>) {
  static constexpr StretchTile kTable[] = {TileOfStretches<kRow + 1>...};
  return kTable[rows - 1];
}
HWY_INLINE StretchTile StretchTileFor(size_t rows) {
  return StretchTileIn(rows, std::make_index_sequence<kTileHeight>());
}

// Rows [0, count) in tiles whose heights differ by one at most: a low last tile would wait for the latency of
// its few chains.
struct Tiling {
  size_t tiles, base, extra;
  HWY_INLINE explicit Tiling(size_t count) : Tiling(count, (count + kTileHeight - 1) / kTileHeight) {}
  HWY_INLINE Tiling(size_t count, size_t tile_count)
      : tiles(tile_count), base(tiles == 0 ? 0 : count / tiles), extra(tiles == 0 ? 0 : count % tiles) {}
  HWY_INLINE size_t begin(size_t tile) const { return tile * base + std::min(tile, extra); }
  HWY_INLINE size_t height(size_t tile) const { return base + (tile < extra ? 1 : 0); }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
