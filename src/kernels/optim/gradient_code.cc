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
void encode_int4_range(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  ref::encode_int4(values, residual, scales, code, count);
}
void decode_int4_range(const float* scales, const int8_t* code, float* values, size_t count) {
  ref::decode_int4(scales, code, values, count);
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

// Bits of the largest |value + residual| of a block.
HWY_INLINE uint32_t largest_bits(const float* values, const float* residual, size_t count) {
  const DF d;
  const DI di;
  VI largest = hn::Zero(di);
  for (size_t i = 0; i < count; i += kVF) {
    const VF x = hn::Add(hn::LoadU(d, values + i), hn::LoadU(d, residual + i));
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(x)));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}
// What is not finite is rare, and so is what is tiny: the plain loop takes them.
HWY_INLINE bool is_usual(uint32_t bits) { return bits >= 0x0d800000u && bits < 0x7f800000u; }

// A whole block.
HWY_INLINE void encode_block(float* values, float* residual, float* scale, int8_t* code) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  const uint32_t bits = largest_bits(values, residual, kCodeBlock);
  if (!is_usual(bits)) return ref::encode_int8(values, residual, scale, code, kCodeBlock);
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

// kVF values in four bits: what decodes to them is left in their place.
HWY_INLINE VI encode_four_bits(float* values, float* residual, VF inverse, VF unit) {
  const DF d;
  const DI di;
  const VF x = hn::Add(hn::LoadU(d, values), hn::LoadU(d, residual));
  const VI q = hn::Min(hn::Max(hn::NearestInt(hn::Mul(x, inverse)), hn::Set(di, -7)), hn::Set(di, 7));
  const VF value = hn::Mul(hn::ConvertTo(d, q), unit);
  hn::StoreU(value, d, values);
  hn::StoreU(hn::Sub(x, value), d, residual);
  return q;
}

void encode_int4_range(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  constexpr size_t kHalf = kCode4Block / 2;
  size_t i = 0;
  for (; i + kCode4Block <= count; i += kCode4Block) {
    const uint32_t bits = largest_bits(values + i, residual + i, kCode4Block);
    float& scale = scales[i / kCode4Block];
    if (!is_usual(bits)) {
      ref::encode_int4(values + i, residual + i, &scale, code + i / 2, kCode4Block);
      continue;
    }
    const float m = std::bit_cast<float>(bits);
    scale = m / 7.0f;
    const VF unit = hn::Set(d, scale), inverse = hn::Set(d, 7.0f / m);
    for (size_t j = i; j < i + kHalf; j += kVF) {
      const VI low = encode_four_bits(values + j, residual + j, inverse, unit);
      const VI high = encode_four_bits(values + kHalf + j, residual + kHalf + j, inverse, unit);
      const VI both = hn::Or(hn::And(low, hn::Set(di, 15)), hn::ShiftLeft<4>(high));
      hn::StoreU(hn::DemoteTo(d8, both), d8, code + i / 2 + (j - i));
    }
  }
  ref::encode_int4(values + i, residual + i, scales + i / kCode4Block, code + i / 2, count - i);
}

void decode_int4_range(const float* scales, const int8_t* code, float* values, size_t count) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  constexpr size_t kHalf = kCode4Block / 2;
  size_t i = 0;
  for (; i + kCode4Block <= count; i += kCode4Block) {
    const VF unit = hn::Set(d, scales[i / kCode4Block]);
    for (size_t j = i; j < i + kHalf; j += kVF) {
      const VI both = hn::PromoteTo(di, hn::LoadU(d8, code + i / 2 + (j - i)));
      const VI low = hn::ShiftRight<28>(hn::ShiftLeft<28>(both)), high = hn::ShiftRight<4>(both);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, low), unit), d, values + j);
      hn::StoreU(hn::Mul(hn::ConvertTo(d, high), unit), d, values + kHalf + j);
    }
  }
  ref::decode_int4(scales + i / kCode4Block, code + i / 2, values + i, count - i);
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
HWY_EXPORT(encode_int4_range);
HWY_EXPORT(decode_int4_range);
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
void encode_int4(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_int4_range)(values, residual, scales, code, count);
}
void decode_int4(const float* scales, const int8_t* code, float* values, size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_int4_range)(scales, code, values, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
