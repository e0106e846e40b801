// The inner loop of gemm: a tile of outputs as in gemm_tile-inl.h whose operands need not be packed.
//
// Rows that are read where they are cost nothing but addresses. Columns that stand side by side already (a B
// that is not transposed) are packed by the first tile that reads them, between its FMAs: for the others,
// which would meet a page per step.
#if defined(BUTTERFLY_KERNELS_GEMM_PLAIN_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_GEMM_PLAIN_TILE_INL_H_
#undef BUTTERFLY_KERNELS_GEMM_PLAIN_TILE_INL_H_
#else
#define BUTTERFLY_KERNELS_GEMM_PLAIN_TILE_INL_H_
#endif

#include "kernels/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Where the operands and outputs of one tile stand.
struct PlainTile {
  const float* a;
  size_t a_stride;  // rows apart: of rows; else of steps
  const float* b;
  size_t b_stride;  // of steps
  size_t steps;
  float* c;
  size_t c_stride;
  Chain chain;
  float* keep;  // kKeep: where the columns are packed, kTileCols per step
};

// kRowsApart: row m has its values at a + m * a_stride, one after the other; else step k has those of all
// rows at a + k * a_stride.
template <size_t kRows, bool kRowsApart, bool kKeep, size_t kVectors>
HWY_NOINLINE void RunPlainTile(const PlainTile& tile, TilePrefetch<StridedRows>& prefetch) {
  const auto row = [c = tile.c, stride = tile.c_stride](size_t m) HWY_ATTR { return c + m * stride; };
  Accumulators<kRows, kVectors> acc;
  acc.Begin(row, tile.chain);
  // Five rows to a pointer: 0, 1, 2 and 4 strides from it are one address of x86, 3 need a register of their
  // own. A pointer for each row would be read from the stack again at every step.
  constexpr size_t kPointers = kRowsApart ? (kRows + 4) / 5 : 1;
  const float* x[kPointers];
  BF_UNROLL
  for (size_t i = 0; i < kPointers; ++i) x[i] = tile.a + 5 * i * tile.a_stride;
  const ptrdiff_t apart1 = static_cast<ptrdiff_t>(tile.a_stride), apart3 = 3 * apart1;
  const float* b = tile.b;
  float* keep = tile.keep;
  const size_t step = kRowsApart ? 1 : tile.a_stride, b_stride = tile.b_stride;
  for (size_t left = tile.steps; left != 0;) {
    prefetch.Step();
    const size_t steps = std::min(left, kPrefetchSteps);
    left -= steps;
    // Lines that will be needed all at once are prefetched one by one: those of the rows for the next
    // round, and in the end the outputs.
    const bool ends = left == 0;
    const float* line = ends ? tile.c : x[0] + kPrefetchSteps;
    const size_t apart = ends ? tile.c_stride : tile.a_stride;
    size_t next_line = 16;
    for (const float* stop = x[0] + steps * step; x[0] != stop; b += b_stride) {
      if (kRowsApart || ends) {
        __builtin_prefetch(line, 0, 3);
        line += next_line;
        next_line = apart - next_line;
      }
      if (!kRowsApart) __builtin_prefetch(x[0] + 24 * step, 0, 3);
      // Rows of B may all share a set of the first cache: not many at a time.
      constexpr size_t kSoon = kKeep ? 6 : 12;
      BF_UNROLL
      for (size_t n = 0; n < kVectors * kVF; n += 16) __builtin_prefetch(b + kSoon * b_stride + n, 0, 3);
      VF w[kVectors];
      BF_UNROLL
      for (size_t n = 0; n < kVectors; ++n) w[n] = hn::LoadU(DF(), b + n * kVF);
      if constexpr (kKeep) {
        BF_UNROLL
        for (size_t n = 0; n < kVectors; ++n) hn::Store(w[n], DF(), keep + n * kVF);
        keep += kTileCols;
      }
      BF_UNROLL
      for (size_t m = 0; m < kRows; ++m) {
        const float* at = kRowsApart ? x[m / 5] + (m % 5 == 3 ? apart3 : m % 5 * apart1) : x[0] + m;
        const VF value = hn::Set(DF(), *at);
        BF_UNROLL
        for (size_t n = 0; n < kVectors; ++n) acc.v[m][n] = Fma(value, w[n], acc.v[m][n]);
      }
      BF_UNROLL
      for (size_t i = 0; i < kPointers; ++i) x[i] += step;
    }
  }
  acc.End(row, tile.chain);
}

// The functions for 1 .. kTileHeight rows.
using PlainTileFunction = void (*)(const PlainTile&, TilePrefetch<StridedRows>&);
template <bool kRowsApart, bool kKeep, size_t kVectors, size_t... kRow>
HWY_INLINE PlainTileFunction PlainTileIn(size_t rows, std::index_sequence<kRow...>) {
  static constexpr PlainTileFunction kTable[] = {RunPlainTile<kRow + 1, kRowsApart, kKeep, kVectors>...};
  return kTable[rows - 1];
}
// `narrow`: only the first vector of the columns.
HWY_INLINE PlainTileFunction PlainTileFor(size_t rows, bool rows_apart, bool keep, bool narrow) {
  constexpr auto kAll = std::make_index_sequence<kTileHeight>();
  constexpr size_t kWide = kTileVectors;
  if (narrow)
    return rows_apart ? PlainTileIn<true, false, 1>(rows, kAll) : PlainTileIn<false, false, 1>(rows, kAll);
  if (keep)
    return rows_apart ? PlainTileIn<true, true, kWide>(rows, kAll)
                      : PlainTileIn<false, true, kWide>(rows, kAll);
  return rows_apart ? PlainTileIn<true, false, kWide>(rows, kAll)
                    : PlainTileIn<false, false, kWide>(rows, kAll);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
