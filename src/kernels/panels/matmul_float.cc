// F32, F16 and BF16 panels: each output is one chain of FMAs over the columns, in order.
#include <vector>

#include "kernels/panels/pack_table.h"
#include "kernels/tiles/panel_layout.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/matmul_float.cc"
#include "hwy/foreach_target.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void f32_panels(const MatmulJob& job) { ref::matmul_panels(DType::kF32, job); }
void f16_panels(const MatmulJob& job) { ref::matmul_panels(DType::kF16, job); }
void bf16_panels(const MatmulJob& job) { ref::matmul_panels(DType::kBF16, job); }
#else

struct F32 {
  using Value = float;
  static HWY_INLINE VF Load(const float* from) { return hn::LoadU(DF(), from); }
};
struct F16 {
  using Value = uint16_t;
  static HWY_INLINE VF Load(const uint16_t* from) { return LoadF16(from); }
};
struct BF16 {
  using Value = uint16_t;
  static HWY_INLINE VF Load(const uint16_t* from) { return LoadBF16(from); }
};

// Rows of activations and panels that one inner loop holds in registers.
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr size_t kGridRows = 14, kGridPanels = 2;
inline constexpr size_t kWide = 4;       // panels side by side for few rows
inline constexpr size_t kGridFrom = 17;  // rows that are many
inline constexpr size_t kStreamFrom = 5;
#elif HWY_TARGET == HWY_AVX2
inline constexpr size_t kGridRows = 6, kGridPanels = 1;
inline constexpr size_t kWide = 2;
inline constexpr size_t kGridFrom = 5;
#elif HWY_TARGET == HWY_NEON
inline constexpr size_t kGridRows = 6, kGridPanels = 1;
inline constexpr size_t kWide = 1;
inline constexpr size_t kGridFrom = 5;
#else
inline constexpr size_t kGridRows = 2, kGridPanels = 1;
inline constexpr size_t kWide = 2;
inline constexpr size_t kGridFrom = 5;
#endif

TileOut OutOf(const MatmulJob& job, size_t row, size_t panel_index) {
  const size_t first = panel_index * kPanelRows;
  return {job.y + row * job.y_stride + first, job.y_stride, std::min(kPanelRows, job.rows - first)};
}

// ---- Few rows: weights straight from the panels. One chain per output is bound by the latency of FMA, so
// several panels go side by side: at least eight chains.
template <class Format, size_t kM, size_t kPanels>
HWY_INLINE void FloatTile(const MatmulJob& job, size_t row, size_t panel_index) {
  using Value = typename Format::Value;
  const Value* w[kPanels];
  const float* x[kM];
  VF acc[kM][kPanels][kParts];
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n)
    w[n] = reinterpret_cast<const Value*>(job.panels + (panel_index + n) * job.panel_bytes);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) {
    x[m] = reinterpret_cast<const float*>(job.acts + (row + m) * job.act_stride);
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p) acc[m][n][p] = hn::Zero(DF());
  }
  // Each panel is a stream of its own; running past its end is harmless and rare.
  constexpr size_t kAheadBytes = 4096, kLineColumns = HWY_MAX(64 / (kPanelRows * sizeof(Value)), 1);
  for (size_t k = 0; k < job.cols; ++k) {
    if (row == 0 && k % kLineColumns == 0) {
      BF_UNROLL
      for (size_t n = 0; n < kPanels; ++n)
        __builtin_prefetch(reinterpret_cast<const std::byte*>(w[n] + k * kPanelRows) + kAheadBytes, 0, 2);
    }
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) {
      VF values[kParts];
      BF_UNROLL
      for (size_t p = 0; p < kParts; ++p) values[p] = Format::Load(w[n] + k * kPanelRows + p * kVF);
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) {
        const VF a = hn::Set(DF(), x[m][k]);
        BF_UNROLL
        for (size_t p = 0; p < kParts; ++p) acc[m][n][p] = Fma(a, values[p], acc[m][n][p]);
      }
    }
  }
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) {
    const TileOut out = OutOf(job, row, panel_index + n);
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p) out.Store(m, p, acc[m][n][p]);
  }
}

// kPanels panels times all rows; only the first rows meet the weights in memory.
template <class Format, size_t kPanels>
HWY_INLINE void FewRows(const MatmulJob& job, size_t panel_index) {
  size_t row = 0;
  if constexpr (kGridRows >= 4)
    for (; row + 4 <= job.m; row += 4) FloatTile<Format, 4, kPanels>(job, row, panel_index);
  for (; row + 2 <= job.m; row += 2) FloatTile<Format, 2, kPanels>(job, row, panel_index);
  for (; row < job.m; ++row) FloatTile<Format, 1, kPanels>(job, row, panel_index);
}

// Rows [row, row + height) of one block, column by column. Rows that do not exist repeat the last one.
HWY_INLINE void PackActs(const MatmulJob& job, size_t row, size_t height, size_t k0, size_t depth,
                         float* to) {
  for (size_t m = 0; m < height; ++m) {
    const size_t at = std::min(row + m, job.m - 1);
    const float* x = reinterpret_cast<const float*>(job.acts + at * job.act_stride) + k0;
    for (size_t k = 0; k < depth; ++k) to[k * height + m] = x[k];
  }
}

// ---- 5 to 16 rows, where the registers hold them all: weights straight from the panels, once, with the next
// ones on their way meanwhile. Activations stand column by column, so that a step reads one line.
#if HWY_TARGET == HWY_AVX3_DL
template <class Format, size_t kRows, size_t kPanels>
HWY_NOINLINE void StreamTile(const MatmulJob& job, const float* acts, size_t panel_index) {
  using Value = typename Format::Value;
  const Value* w[kPanels];
  VF acc[kRows][kPanels];
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) {
    w[n] = reinterpret_cast<const Value*>(job.panels + (panel_index + n) * job.panel_bytes);
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) acc[m][n] = hn::Zero(DF());
  }
  constexpr size_t kAheadBytes = 4096, kLineColumns = HWY_MAX(64 / (kPanelRows * sizeof(Value)), 1);
  for (size_t k = 0; k < job.cols; ++k) {
    if (k % kLineColumns == 0) {
      BF_UNROLL
      for (size_t n = 0; n < kPanels; ++n)
        __builtin_prefetch(reinterpret_cast<const std::byte*>(w[n] + k * kPanelRows) + kAheadBytes, 0, 2);
    }
    VF values[kPanels];
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) values[n] = Format::Load(w[n] + k * kPanelRows);
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) {
      const VF a = hn::Set(DF(), acts[k * kRows + m]);
      BF_UNROLL
      for (size_t n = 0; n < kPanels; ++n) acc[m][n] = Fma(a, values[n], acc[m][n]);
    }
  }
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) {
    const TileOut out = OutOf(job, 0, panel_index + n);
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m)
      if (m < job.m) out.Store(m, 0, acc[m][n]);
  }
}

template <class Format, size_t kRows, size_t kPanels>
HWY_INLINE void StreamRows(const MatmulJob& job) {
  thread_local std::vector<float> acts;
  acts.resize(kRows * job.cols);
  PackActs(job, 0, kRows, 0, job.cols, acts.data());
  size_t panel_index = job.panel_begin;
  for (; panel_index + kPanels <= job.panel_end; panel_index += kPanels)
    StreamTile<Format, kRows, kPanels>(job, acts.data(), panel_index);
  if constexpr (kPanels > 1)
    for (; panel_index < job.panel_end; ++panel_index)
      StreamTile<Format, kRows, 1>(job, acts.data(), panel_index);
}

// The lowest tile that holds all rows; the rows it has too many repeat the last one.
template <class Format>
void Stream(const MatmulJob& job) {
  if (job.m <= 6) return StreamRows<Format, 6, 2>(job);
  if (job.m <= 8) return StreamRows<Format, 8, 2>(job);
  if (job.m <= 10) return StreamRows<Format, 10, 2>(job);
  if (job.m <= 12) return StreamRows<Format, 12, 2>(job);
  if (job.m <= 14) return StreamRows<Format, 14, 2>(job);
  return StreamRows<Format, 16, 1>(job);
}
#endif

// ---- Many rows: blocks of columns, packed so that the inner loop reads two straight lines. Sums rest in y
// between blocks; a float stored and loaded is the same float.
inline constexpr size_t kDepth = 256;     // columns per block: two panels of them as floats are 32 KiB
inline constexpr size_t kPassTiles = 12;  // tiles of rows that share the widened weights

template <class Format, size_t kPanels>
HWY_INLINE void Widen(const MatmulJob& job, size_t panel_index, size_t k0, size_t depth, float* to) {
  for (size_t n = 0; n < kPanels; ++n) {
    const auto* w =
        reinterpret_cast<const typename Format::Value*>(job.panels + (panel_index + n) * job.panel_bytes) +
        k0 * kPanelRows;
    for (size_t k = 0; k < depth; ++k) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p)
      hn::Store(Format::Load(w + k * kPanelRows + p * kVF), DF(),
                to + (k * kPanels + n) * kPanelRows + p * kVF);
  }
}

// The weights that will be widened next, asked for while the first tile multiplies.
struct GridAhead {
  const std::byte* from[kGridPanels] = {};  // null: nothing is asked for
  size_t column_bytes = 0;

  HWY_INLINE void Column(size_t k) const {
    if (from[0] == nullptr || k * column_bytes % 64 != 0) return;
    BF_UNROLL
    for (size_t n = 0; n < kGridPanels; ++n) __builtin_prefetch(from[n] + k * column_bytes, 0, 2);
  }
};

template <size_t kRows, size_t kPanels>
HWY_NOINLINE void GridTile(const float* acts, const float* weights, size_t depth, const TileOut* out,
                           size_t rows, bool first_block, const GridAhead& ahead) {
  VF acc[kRows][kPanels][kParts];
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
  for (size_t p = 0; p < kParts; ++p)
    acc[m][n][p] = first_block || m >= rows ? hn::Zero(DF()) : out[n].Load(m, p);
  for (size_t k = 0; k < depth; ++k) {
    ahead.Column(k);
    VF w[kPanels][kParts];
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p)
      w[n][p] = hn::Load(DF(), weights + (k * kPanels + n) * kPanelRows + p * kVF);
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) {
      const VF a = hn::Set(DF(), acts[k * kRows + m]);
      BF_UNROLL
      for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
      for (size_t p = 0; p < kParts; ++p) acc[m][n][p] = Fma(a, w[n][p], acc[m][n][p]);
    }
  }
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
  for (size_t p = 0; p < kParts; ++p)
    if (m < rows) out[n].Store(m, p, acc[m][n][p]);
}

// The lowest tile that holds `height` rows.
template <size_t kPanels>
struct Grid {
  using Tile = void (*)(const float*, const float*, size_t, const TileOut*, size_t, bool, const GridAhead&);
  size_t rows;
  Tile tile;
  static Grid For(size_t height) {
#if HWY_TARGET == HWY_AVX3_DL
    if (height <= 8) return {8, GridTile<8, kPanels>};
    if (height <= 10) return {10, GridTile<10, kPanels>};
    if (height <= 12) return {12, GridTile<12, kPanels>};
#endif
    return {kGridRows, GridTile<kGridRows, kPanels>};
  }
};

struct GridScratch {
  Buffer acts = Buffer::allocate(kPassTiles * kGridRows * kDepth * sizeof(float));
  Buffer weights = Buffer::allocate(kGridPanels * kPanelRows * kDepth * sizeof(float));
};

// Rows [row0, row1) of one pass, one block of columns.
struct GridPass {
  const MatmulJob& job;
  size_t row0, row1, height;
  size_t k0, depth;
  const float* acts;
  float* weights;
};

template <class Format, size_t kPanels>
HWY_NOINLINE void GridPanels(const GridPass& pass, size_t panel_index) {
  Widen<Format, kPanels>(pass.job, panel_index, pass.k0, pass.depth, pass.weights);
  const auto tile = Grid<kPanels>::For(pass.height).tile;
  // Behind the last panels come the first ones of the next columns.
  const MatmulJob& job = pass.job;
  const bool last = panel_index + kPanels >= job.panel_end;
  const size_t next = last ? job.panel_begin : panel_index + kPanels;
  GridAhead ahead{.from = {}, .column_bytes = kPanelRows * sizeof(typename Format::Value)};
  for (size_t n = 0; n < kGridPanels; ++n)
    ahead.from[n] = job.panels + std::min(next + n, job.panel_end - 1) * job.panel_bytes +
                    (pass.k0 + (last ? pass.depth : 0)) * ahead.column_bytes;
  for (size_t row = pass.row0; row < pass.row1; row += pass.height) {
    TileOut out[kPanels];
    for (size_t n = 0; n < kPanels; ++n) out[n] = OutOf(pass.job, row, panel_index + n);
    tile(pass.acts + (row - pass.row0) * kDepth, pass.weights, pass.depth, out,
         std::min(pass.height, pass.row1 - row), pass.k0 == 0, row == pass.row0 ? ahead : GridAhead());
  }
}

template <class Format>
void GridRows(const MatmulJob& job) {
  thread_local GridScratch scratch;
  auto* acts = reinterpret_cast<float*>(scratch.acts.data());
  auto* weights = reinterpret_cast<float*>(scratch.weights.data());
  for (size_t row0 = 0; row0 < job.m; row0 += kPassTiles * kGridRows) {
    const size_t row1 = std::min(job.m, row0 + kPassTiles * kGridRows);
    // Tiles of equal height waste the least.
    const size_t tiles = (row1 - row0 + kGridRows - 1) / kGridRows;
    const size_t height = Grid<kGridPanels>::For((row1 - row0 + tiles - 1) / tiles).rows;
    size_t k0 = 0;
    do {  // once even without columns: sums of nothing are zeros
      const size_t depth = std::min(kDepth, job.cols - k0);
      for (size_t row = row0; row < row1; row += height)
        PackActs(job, row, height, k0, depth, acts + (row - row0) * kDepth);
      const GridPass pass{job, row0, row1, height, k0, depth, acts, weights};
      size_t panel_index = job.panel_begin;
      for (; panel_index + kGridPanels <= job.panel_end; panel_index += kGridPanels)
        GridPanels<Format, kGridPanels>(pass, panel_index);
      if constexpr (kGridPanels > 1)
        for (; panel_index < job.panel_end; ++panel_index) GridPanels<Format, 1>(pass, panel_index);
    } while ((k0 += kDepth) < job.cols);
  }
}

template <class Format>
HWY_NOINLINE void FloatPanels(const MatmulJob& job) {
  if (job.m >= kGridFrom) return GridRows<Format>(job);
#if HWY_TARGET == HWY_AVX3_DL
  if (job.m >= kStreamFrom) return Stream<Format>(job);
#endif
  size_t panel_index = job.panel_begin;
  for (; panel_index + kWide <= job.panel_end; panel_index += kWide) FewRows<Format, kWide>(job, panel_index);
  for (; panel_index < job.panel_end; ++panel_index) FewRows<Format, 1>(job, panel_index);
}

void f32_panels(const MatmulJob& job) { FloatPanels<F32>(job); }
void f16_panels(const MatmulJob& job) { FloatPanels<F16>(job); }
void bf16_panels(const MatmulJob& job) { FloatPanels<BF16>(job); }
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(f32_panels);
HWY_EXPORT(f16_panels);
HWY_EXPORT(bf16_panels);
void matmul_f32_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(f32_panels)(job); }
void matmul_f16_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(f16_panels)(job); }
void matmul_bf16_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(bf16_panels)(job); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
