// Walks activation rows and panels in tiles. The tile size changes the speed, never the bits.
#if defined(BUTTERFLY_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_TILE_INL_H_
#undef BUTTERFLY_KERNELS_TILE_INL_H_
#else
#define BUTTERFLY_KERNELS_TILE_INL_H_
#endif

#include <algorithm>

#include "kernels/activation_rows.h"
#include "kernels/dot-inl.h"
#include "kernels/pack_table.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

HWY_INLINE V8 HighNibbles(V8 both) {
  return hn::And(hn::BitCast(D8(), hn::ShiftRight<4>(hn::BitCast(D16(), both))), hn::Set(D8(), uint8_t{15}));
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

// Where a tile's results go; rows beyond the matrix (padding of the last panel) are dropped.
struct TileOut {
  float* y;
  size_t stride;
  size_t valid;  // rows of this panel that exist

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

template <class Tile, size_t kM>
HWY_INLINE void RunTile(const MatmulJob& job, size_t row, size_t panel_index) {
  const std::byte* panel_data = job.panels + panel_index * job.panel_bytes;
  const size_t first = panel_index * kPanelRows;
  const TileOut out{job.y + row * job.y_stride + first, job.y_stride, std::min(kPanelRows, job.rows - first)};
  const ActTile<kM> acts(Tile::kAct, job, row);
  if constexpr (kM == 1) {
    Tile::template Run<1, kParts>(panel_data, job.cols, 0, acts, out);  // the panel streams by once
  } else {
    for (size_t part = 0; part < kParts; ++part)
      Tile::template Run<kM, 1>(panel_data, job.cols, part, acts, out);
  }
}

template <class Tile>
HWY_NOINLINE void RunPanels(const MatmulJob& job) {
  for (size_t row0 = 0; row0 < job.m; row0 += kRowsPerPass) {
    const size_t row1 = std::min(job.m, row0 + kRowsPerPass);
    for (size_t panel_index = job.panel_begin; panel_index < job.panel_end; ++panel_index) {
      size_t row = row0;
      for (; row + kTileRows <= row1; row += kTileRows) RunTile<Tile, kTileRows>(job, row, panel_index);
      if constexpr (kTileRows > 4)
        for (; row + 4 <= row1; row += 4) RunTile<Tile, 4>(job, row, panel_index);
      for (; row + 2 <= row1; row += 2) RunTile<Tile, 2>(job, row, panel_index);
      for (; row < row1; ++row) RunTile<Tile, 1>(job, row, panel_index);
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
