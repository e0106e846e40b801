// F32, F16 and BF16 panels: each output is one chain of FMAs over the columns, in order.
#include "kernels/pack_table.h"
#include "kernels/panel_layout.h"
#include "kernels/ref/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cc"
#include "hwy/foreach_target.h"
#include "kernels/tile-inl.h"

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

// One chain per output is bound by the latency of FMA, so several panels go side by side: at least eight
// chains.
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
  for (size_t k = 0; k < job.cols; ++k) {
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
    const size_t first = (panel_index + n) * kPanelRows;
    const TileOut out{job.y + row * job.y_stride + first, job.y_stride,
                      std::min(kPanelRows, job.rows - first)};
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p) out.Store(m, p, acc[m][n][p]);
  }
}

#if HWY_TARGET == HWY_AVX3_DL
inline constexpr size_t kWide = 8;    // panels for one row
inline constexpr size_t kSquare = 2;  // panels for a tile of kTileRows rows
#elif HWY_TARGET == HWY_AVX2
inline constexpr size_t kWide = 4;
inline constexpr size_t kSquare = 1;
#else
inline constexpr size_t kWide = 2;
inline constexpr size_t kSquare = 1;
#endif
inline constexpr size_t kFloatRows = HWY_TARGET == HWY_SSE4 ? 2 : HWY_TARGET == HWY_NEON ? 4 : kTileRows;

template <class Format>
HWY_NOINLINE void FloatPanels(const MatmulJob& job) {
  for (size_t row0 = 0; row0 < job.m; row0 += kRowsPerPass) {
    const size_t row1 = std::min(job.m, row0 + kRowsPerPass);
    for (size_t p0 = job.panel_begin; p0 < job.panel_end; p0 += kWide) {
      const size_t p1 = std::min(job.panel_end, p0 + kWide);
      size_t row = row0;
      for (; row + kFloatRows <= row1; row += kFloatRows) {
        size_t p = p0;
        for (; p + kSquare <= p1; p += kSquare) FloatTile<Format, kFloatRows, kSquare>(job, row, p);
        for (; p < p1; ++p) FloatTile<Format, kFloatRows, 1>(job, row, p);
      }
      for (; row < row1; ++row) {
        if (p1 - p0 == kWide) {
          FloatTile<Format, 1, kWide>(job, row, p0);
        } else {
          for (size_t p = p0; p < p1; ++p) FloatTile<Format, 1, 1>(job, row, p);
        }
      }
    }
  }
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
