// The inner loop of convolutions: a tile of outputs as in gemm_tile-inl.h whose rows are read through
// pointers.
#if defined(BUTTERFLY_KERNELS_CONV2D_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_CONV2D_TILE_INL_H_
#undef BUTTERFLY_KERNELS_CONV2D_TILE_INL_H_
#else
#define BUTTERFLY_KERNELS_CONV2D_TILE_INL_H_
#endif

#include "kernels/conv2d/conv2d_band.h"
#include "kernels/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Row m reads rows[m][from .. from + run) for each TapRun in turn; its outputs stand at to[m] + column.
// `b` is a packed panel with all steps.
template <size_t kRows>
HWY_NOINLINE void TileOfRows(const float* const* rows, const TapRun* runs, size_t run_count, size_t run,
                             const float* b, float* const* to, size_t column, Chain chain,
                             TilePrefetch<ListedRows>& prefetch) {
  const auto row = [to, column](size_t m) HWY_ATTR { return to[m] + column; };
  Accumulators<kRows> acc;
  acc.Begin(row, chain);
  const float* x[kRows];
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) x[m] = rows[m];
  for (size_t r = 0; r < run_count; ++r) {
    const float* at = b + runs[r].step * kTileCols;
    ptrdiff_t k = runs[r].from;
    for (size_t left = run; left != 0;) {
      prefetch.Step();
      const size_t steps = std::min(left, kPrefetchSteps);
      left -= steps;
      for (const ptrdiff_t stop = k + static_cast<ptrdiff_t>(steps); k != stop; ++k, at += kTileCols) {
        BF_UNROLL
        for (size_t n = 0; n < kTileCols; n += 16) __builtin_prefetch(at + 12 * kTileCols + n, 0, 3);
        VF w[kTileVectors];
        BF_UNROLL
        for (size_t n = 0; n < kTileVectors; ++n) w[n] = hn::Load(DF(), at + n * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kRows; ++m) {
          const VF value = hn::Set(DF(), x[m][k]);
          BF_UNROLL
          for (size_t n = 0; n < kTileVectors; ++n) acc.v[m][n] = Fma(value, w[n], acc.v[m][n]);
        }
      }
    }
  }
  acc.End(row, chain);
}

using RowTile = void (*)(const float* const*, const TapRun*, size_t, size_t, const float*, float* const*,
                         size_t, Chain, TilePrefetch<ListedRows>&);
template <size_t... kRow>
HWY_INLINE RowTile RowTileIn(size_t rows, std::index_sequence<kRow...>) {
  static constexpr RowTile kTable[] = {TileOfRows<kRow + 1>...};
  return kTable[rows - 1];
}
HWY_INLINE RowTile RowTileFor(size_t rows) {
  return RowTileIn(rows, std::make_index_sequence<kTileHeight>());
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
