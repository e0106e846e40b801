#include "kernels/optim/gradient_code.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optim/gradient_code.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void encode_bf16_range(float* values, uint16_t* code, size_t count) { ref::encode_bf16(values, code, count); }
void decode_bf16_range(const uint16_t* code, float* values, size_t count) {
  ref::decode_bf16(code, values, count);
}
void encode_int8_range(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  ref::encode_int8(values, residual, scales, code, count);
}
void decode_int8_range(const float* scales, const int8_t* code, float* values, size_t count) {
  ref::decode_int8(scales, code, values, count);
}

#else

void encode_bf16_range(float* values, uint16_t* code, size_t count) {
  const DF d;
  const DU du;
  const hn::Rebind<uint16_t, DF> d16;
  const auto half = hn::Set(du, 0x7fffu), one = hn::Set(du, 1u), quiet = hn::Set(du, 0x400000u);
  size_t i = 0;
  for (; i + kVF <= count; i += kVF) {
    const VF x = hn::LoadU(d, values + i);
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
    const auto rounded = hn::Add(bits, hn::Add(half, odd));
    const auto is_nan = hn::RebindMask(du, hn::Ne(x, x));
    const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, hn::Or(bits, quiet), rounded));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), high)), d16, code + i);
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(high)), d, values + i);
  }
  ref::encode_bf16(values + i, code + i, count - i);
}

void decode_bf16_range(const uint16_t* code, float* values, size_t count) {
  size_t i = 0;
  for (; i + kVF <= count; i += kVF) hn::StoreU(LoadBF16(code + i), DF(), values + i);
  ref::decode_bf16(code + i, values + i, count - i);
}

// A whole block. What is not finite is rare: the plain loop takes it.
HWY_INLINE void encode_block(float* values, float* residual, float* scale, int8_t* code) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  VI largest = hn::Zero(di);
  for (size_t i = 0; i < kCodeBlock; i += kVF) {
    const VF x = hn::Add(hn::LoadU(d, values + i), hn::LoadU(d, residual + i));
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(x)));
  }
  const auto bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  if (bits < 0x0d800000u || bits >= 0x7f800000u)
    return ref::encode_int8(values, residual, scale, code, kCodeBlock);
  const float m = std::bit_cast<float>(bits);
  *scale = m / 127.0f;
  const VF unit = hn::Set(d, *scale), inverse = hn::Set(d, 127.0f / m);
  const VI low = hn::Set(di, -127), high = hn::Set(di, 127);
  for (size_t i = 0; i < kCodeBlock; i += kVF) {
    const VF x = hn::Add(hn::LoadU(d, values + i), hn::LoadU(d, residual + i));
    const VI q = hn::Min(hn::Max(hn::NearestInt(hn::Mul(x, inverse)), low), high);
    hn::StoreU(hn::DemoteTo(d8, q), d8, code + i);
    const VF value = hn::Mul(hn::ConvertTo(d, q), unit);
    hn::StoreU(value, d, values + i);
    hn::StoreU(hn::Sub(x, value), d, residual + i);
  }
}

void encode_int8_range(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  size_t i = 0;
  for (; i + kCodeBlock <= count; i += kCodeBlock)
    encode_block(values + i, residual + i, scales + i / kCodeBlock, code + i);
  ref::encode_int8(values + i, residual + i, scales + i / kCodeBlock, code + i, count - i);
}

void decode_int8_range(const float* scales, const int8_t* code, float* values, size_t count) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  size_t i = 0;
  for (; i + kCodeBlock <= count; i += kCodeBlock) {
    const VF unit = hn::Set(d, scales[i / kCodeBlock]);
    for (size_t j = i; j < i + kCodeBlock; j += kVF) {
      const VI q = hn::PromoteTo(di, hn::LoadU(d8, code + j));
      hn::StoreU(hn::Mul(hn::ConvertTo(d, q), unit), d, values + j);
    }
  }
  ref::decode_int8(scales + i / kCodeBlock, code + i, values + i, count - i);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(encode_bf16_range);
HWY_EXPORT(decode_bf16_range);
HWY_EXPORT(encode_int8_range);
HWY_EXPORT(decode_int8_range);
}  // namespace

void encode_bf16(float* values, uint16_t* code, size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_bf16_range)(values, code, count);
}
void decode_bf16(const uint16_t* code, float* values, size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_bf16_range)(code, values, count);
}
void encode_int8(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_int8_range)(values, residual, scales, code, count);
}
void decode_int8(const float* scales, const int8_t* code, float* values, size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_int8_range)(scales, code, values, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
