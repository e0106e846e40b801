#include "kernels/math/math.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math/math_constants.h"

namespace butterfly::kernels {
namespace {

using namespace math;

// x = n ln 2 + r. `bits` is n in two's complement; NaN leaves any value there, which nothing depends on.
struct Reduced {
  float r;
  uint32_t bits;
};
Reduced reduce(float x) {
  const float t = std::fma(x, kLog2E, kRoundMagic);
  const float n = t - kRoundMagic;
  const float r = std::fma(n, -kLn2Lo, std::fma(n, -kLn2Hi, x));
  return {r, std::bit_cast<uint32_t>(t) - std::bit_cast<uint32_t>(kRoundMagic)};
}

// exp(r) - 1 for |r| <= ln(2) / 2.
float expm1_poly(float r) {
  float q = std::fma(kE6, r, kE5);
  q = std::fma(q, r, kE4);
  q = std::fma(q, r, kE3);
  q = std::fma(q, r, kE2);
  return std::fma(r * r, q, r);
}

// 2^n as a float, -126 <= n <= 127.
float exp2_int(uint32_t n) { return std::bit_cast<float>((n + 127u) << 23); }

}  // namespace

float exp_f32(float x) {
  x = x > kExpMax ? kExpMax : x;
  x = x < kExpMin ? kExpMin : x;
  const Reduced a = reduce(x);
  const float e = 1.0f + expm1_poly(a.r);
  // In two factors, so that subnormal results are rounded once and 2^128 is not needed.
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(a.bits) >> 1);
  return e * exp2_int(half) * exp2_int(a.bits - half);
}

float tanh_f32(float x) {
  // With m = exp(2|x|) - 1: tanh|x| = m / (m + 2), without cancellation near 0.
  float t = std::fabs(x);
  t = t > kTanhMax ? kTanhMax : t;
  const Reduced a = reduce(t + t);
  const float scale = exp2_int(a.bits);
  const float m = std::fma(expm1_poly(a.r), scale, scale - 1.0f);
  return std::copysign(m / (m + 2.0f), x);
}

float sigmoid_f32(float x) {
  // exp of a negative number only: the half that neither overflows nor cancels.
  const float e = exp_f32(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

float silu_f32(float x) {
  x = x < kGateMin ? kGateMin : x;
  return x * sigmoid_f32(x);
}

float gelu_f32(float x) {
  x = x < kGateMin ? kGateMin : x;
  return x * sigmoid_f32(x * std::fma(x * x, kGelu3, kGelu1));
}

NormalTail normal_tail_f32(float t) {
  const float u = (t - kErfShift) / (t + kErfShift);
  float h = kH[9];
  for (int i = 8; i >= 0; --i) h = std::fma(h, u, kH[i]);
  // exp(-t^2 / 2) with the rounding error of t^2 put back.
  const float square = t * t;
  const float error = std::fma(t, t, -square);
  float e = exp_f32(-0.5f * square);
  e = std::fma(e, -0.5f * error, e);
  return {e, e * h};
}

float gelu_erf_f32(float x) {
  x = x < -kErfMax ? -kErfMax : x;
  const float t = std::fabs(x);
  const float tail = normal_tail_f32(t > kErfMax ? kErfMax : t).tail;
  return x * (x > 0.0f ? 1.0f - tail : tail);
}

float soft_cap_f32(float x, float cap) { return cap * tanh_f32(x / cap); }

float log_f32(float x) { return static_cast<float>(log_f64(x)); }

}  // namespace butterfly::kernels
