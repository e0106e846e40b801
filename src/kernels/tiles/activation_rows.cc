#include "kernels/tiles/activation_rows.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/quant/quant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tiles/activation_rows.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void quantize_row(ActKind kind, const float* x, size_t k, std::byte* row) {
  ref::quantize_activation(kind, x, k, row);
}
#else

// Largest magnitude of `count` floats as bits: integer order equals float order there, and NaN is above all.
HWY_INLINE uint32_t MaxMagnitudeBits(const float* x, size_t count) {
  const DF d;
  const DI di;
  const auto mask = hn::Set(di, 0x7fffffff);
  auto most = hn::Zero(di);
  for (size_t i = 0; i < count; i += kVF)
    most = hn::Max(most, hn::And(mask, hn::BitCast(di, hn::LoadU(d, x + i))));
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, most)));
}

void quantize_row(ActKind kind, const float* x, size_t k, std::byte* row) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DI> d8;
  const size_t block = act_block(kind);
  const ActLayout layout = act_layout(kind, k);
  auto* q = reinterpret_cast<int8_t*>(row);
  auto* scales = reinterpret_cast<float*>(row + layout.scales_offset);
  auto* sums = reinterpret_cast<int16_t*>(row + layout.sums_offset);

  for (size_t b = 0; b * block < k; ++b) {
    const float* from = x + b * block;
    const ActScale scale = act_scale(MaxMagnitudeBits(from, block));
    scales[b] = scale.d;
    const auto inverse = hn::Set(d, scale.inverse);
    for (size_t group = 0; group < block; group += 16) {
      auto sum = hn::Zero(di);
      for (size_t i = group; i < group + 16; i += kVF) {
        // An infinite or NaN block has inverse 0; integer masks keep NaN products out of the conversion.
        const auto value =
            hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(hn::BitCast(di, inverse), hn::Zero(di))),
                               hn::Mul(hn::LoadU(d, from + i), inverse));
        const auto whole = hn::NearestInt(value);
        sum = hn::Add(sum, whole);
        hn::StoreU(hn::DemoteTo(d8, whole), d8, q + b * block + i);
      }
      sums[(b * block + group) / 16] = static_cast<int16_t>(hn::GetLane(hn::SumOfLanes(di, sum)));
    }
  }
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {

HWY_EXPORT(quantize_row);

ActKind act_kind(DType weights) {
  const DTypeInfo& info = dtype_info(weights);
  if (!info.quantised()) return ActKind::kF32;
  switch (info.block_values) {
    case 32:
      return ActKind::kQ8x32;
    case 64:
      return ActKind::kQ8x64;
    case 128:
      return ActKind::kQ8x128;
    default:
      return ActKind::kQ8x256;
  }
}

size_t act_block(ActKind kind) {
  constexpr size_t kBlocks[] = {1, 32, 64, 128, 256};  // in the order of the enum
  return kBlocks[static_cast<size_t>(kind)];
}

ActLayout act_layout(ActKind kind, size_t k) {
  if (kind == ActKind::kF32) return {0, 0, round_up(k * sizeof(float), 64)};
  const size_t scales = round_up(k, 64);
  const size_t sums = scales + round_up(k / act_block(kind) * sizeof(float), 64);
  return {scales, sums, sums + round_up(k / 16 * sizeof(int16_t), 64)};
}

void quantize_activation(ActKind kind, const float* x, size_t k, std::byte* row) {
  BF_DCHECK(kind != ActKind::kF32 && k % act_block(kind) == 0) << "k " << k;
  HWY_DYNAMIC_DISPATCH(quantize_row)(kind, x, k, row);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
