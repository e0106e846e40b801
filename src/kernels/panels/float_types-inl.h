// Fast packing and products of F32, F16 and BF16 panels: each output is one chain of FMAs over the columns,
// in order. A Format gives Value, what a panel holds, and Load(), which makes floats of a vector of them.
#if defined(BUTTERFLY_KERNELS_FLOAT_TYPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_FLOAT_TYPES_INL_H_
#undef BUTTERFLY_KERNELS_FLOAT_TYPES_INL_H_
#else
#define BUTTERFLY_KERNELS_FLOAT_TYPES_INL_H_
#endif

#include <vector>

#include "kernels/panels/float_grid-inl.h"
#include "kernels/panels/float_types.h"
#include "kernels/panels/pack_words-inl.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <typename Value>
void PackFullFloats(const FullPanel& p) {
  FloatLayout<Value>::pack(p.rows, p.row_bytes, kPanelRows, p.cols, p.to);
}

#else

// See PackFormat::pack_full.
template <typename Value>
HWY_INLINE void PackFullFloats(const FullPanel& p) {
  auto* to = reinterpret_cast<uint8_t*>(p.to);
  EachBlock(p, 16, [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    const Words words(at, p.row_bytes);
    BF_UNROLL
    for (size_t j = 0; j < 4; ++j) {
      if constexpr (sizeof(Value) == 4) {
        StoreWords(words.v[j], to + ((4 * b + j) * kPanelRows + row) * 4);
      } else {
        StoreTwoRows(words.v[j], to + ((8 * b + 2 * j) * kPanelRows + row) * 2);
      }
    }
  });
  // The columns behind the last whole block of 16 bytes, value by value.
  constexpr size_t kPerBlock = 16 / sizeof(Value);
  for (size_t k = p.cols / kPerBlock * kPerBlock; k < p.cols; ++k)
    for (size_t row = 0; row < kPanelRows; ++row)
      std::memcpy(p.to + (k * kPanelRows + row) * sizeof(Value),
                  p.rows + row * p.row_bytes + k * sizeof(Value), sizeof(Value));
}

// Rows of activations from which on they are many, and panels side by side for few rows.
#if HWY_TARGET == HWY_AVX3_DL
inline constexpr size_t kWide = 4;
inline constexpr size_t kGridFrom = 17;
inline constexpr size_t kStreamFrom = 5;
#elif HWY_TARGET == HWY_NEON
inline constexpr size_t kWide = 1;
inline constexpr size_t kGridFrom = 5;
#else
inline constexpr size_t kWide = 2;
inline constexpr size_t kGridFrom = 5;
#endif

// ---- Few rows: weights straight from the panels. One chain per output is bound by the latency of FMA, so
// several panels go side by side: at least eight chains.
template <class Format, size_t kM, size_t kPanels>
HWY_INLINE void FloatTile(const MatmulJob& job, size_t row, size_t panel_index) {
  using Value = typename Format::Value;
  const Value* w[kPanels];
  const float* x[kM];
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n)
    w[n] = reinterpret_cast<const Value*>(job.panels + (panel_index + n) * job.panel_bytes);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m)
    x[m] = reinterpret_cast<const float*>(job.acts + (row + m) * job.act_stride);
  // Each panel is a stream of its own; running past its end is harmless and rare.
  constexpr size_t kAheadBytes = 4096, kLineColumns = HWY_MAX(64 / (kPanelRows * sizeof(Value)), 1);
  ShardSlots<kM, kPanels * kParts> slots;
  for (ShardWalk walk(job.cuts); walk; walk.next()) {
    VF acc[kM][kPanels * kParts];
    ZeroAll(acc);
    for (size_t k = walk.begin(), end = walk.end(); k < end; ++k) {
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
          for (size_t p = 0; p < kParts; ++p)
            acc[m][n * kParts + p] = Fma(a, values[p], acc[m][n * kParts + p]);
        }
      }
    }
    if (!slots.Collect(walk, acc)) continue;
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) {
      const TileOut out = OutOf(job, row, panel_index + n).Subtree(walk.subtree());
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) BF_UNROLL
      for (size_t p = 0; p < kParts; ++p) out.Store(m, p, acc[m][n * kParts + p]);
    }
  }
}

// kPanels panels times all rows; only the first rows meet the weights in memory.
template <class Format, size_t kPanels>
HWY_INLINE void FewRows(const MatmulJob& job, size_t panel_index) {
  size_t row = 0;
  if constexpr (kTileRows >= 6)  // registers for 4 x kWide panels
    for (; row + 4 <= job.m; row += 4) FloatTile<Format, 4, kPanels>(job, row, panel_index);
  for (; row + 2 <= job.m; row += 2) FloatTile<Format, 2, kPanels>(job, row, panel_index);
  for (; row < job.m; ++row) FloatTile<Format, 1, kPanels>(job, row, panel_index);
}

// ---- 5 to 16 rows, where the registers hold them all: weights straight from the panels, once, with the next
// ones on their way meanwhile. Activations stand column by column, so that a step reads one line.
#if HWY_TARGET == HWY_AVX3_DL
template <class Format, size_t kRows, size_t kPanels>
HWY_NOINLINE void StreamTile(const MatmulJob& job, const float* acts, size_t panel_index) {
  using Value = typename Format::Value;
  const Value* w[kPanels];
  BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n)
    w[n] = reinterpret_cast<const Value*>(job.panels + (panel_index + n) * job.panel_bytes);
  constexpr size_t kAheadBytes = 4096, kLineColumns = HWY_MAX(64 / (kPanelRows * sizeof(Value)), 1);
  ShardSlots<kRows, kPanels> slots;
  for (ShardWalk walk(job.cuts); walk; walk.next()) {
    VF acc[kRows][kPanels];
    ZeroAll(acc);
    for (size_t k = walk.begin(), end = walk.end(); k < end; ++k) {
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
    if (!slots.Collect(walk, acc)) continue;
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) {
      const TileOut out = OutOf(job, 0, panel_index + n).Subtree(walk.subtree());
      BF_UNROLL
      for (size_t m = 0; m < kRows; ++m)
        if (m < job.m) out.Store(m, 0, acc[m][n]);
    }
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

// ---- Many rows (float_grid.cc): weights are widened to floats once for all of them.
template <class Format>
void Widen(const MatmulJob& job, size_t panel_index, size_t panels, size_t k0, size_t depth, float* to) {
  for (size_t n = 0; n < panels; ++n) {
    const auto* w =
        reinterpret_cast<const typename Format::Value*>(job.panels + (panel_index + n) * job.panel_bytes) +
        k0 * kPanelRows;
    for (size_t k = 0; k < depth; ++k) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p)
      hn::Store(Format::Load(w + k * kPanelRows + p * kVF), DF(),
                to + (k * panels + n) * kPanelRows + p * kVF);
  }
}

template <class Format>
HWY_NOINLINE void FloatPanels(const MatmulJob& job) {
  if (job.m >= kGridFrom) return GridRows(job, {Widen<Format>, sizeof(typename Format::Value)});
#if HWY_TARGET == HWY_AVX3_DL
  if (job.m >= kStreamFrom) return Stream<Format>(job);
#endif
  size_t panel_index = job.panel_begin;
  for (; panel_index + kWide <= job.panel_end; panel_index += kWide) FewRows<Format, kWide>(job, panel_index);
  for (; panel_index < job.panel_end; ++panel_index) FewRows<Format, 1>(job, panel_index);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
