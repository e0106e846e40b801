#include "kernels/elementwise/activation_backward.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math/math.h"
#include "kernels/math/math_constants.h"
#include "kernels/rows/reduce.h"

namespace butterfly::kernels::ref {
namespace {

using namespace math;

// Far out the slopes are 0 or 1; keeps infinity * 0 out. NaN stays.
float clamp(float x, float bound) {
  x = x > bound ? bound : x;
  return x < -bound ? -bound : x;
}

float silu_slope(float x) {
  x = clamp(x, -kGateMin);
  const float s = sigmoid_f32(x);
  return std::fma(x * s, 1.0f - s, s);
}

// With t = |x|, e = exp(-t (k1 + k3 t^2)), r = 1 / (1 + e): the slope at -t is q = r e (1 - r t (k1 + 3 k3
// t^2)), the one at t is 1 - q. Fewer steps than through sigmoid(), whose exp covers a wider range: this
// function has two streams in and one out, and should wait for memory, not for arithmetic.
float gelu_slope(float x) {
  float t = std::fabs(x);
  t = t > kGeluSlopeMax ? kGeluSlopeMax : t;
  const float square = t * t;
  const float z = t * std::fma(square, kGelu3, kGelu1);
  // exp(-z) = 2^n exp(u). ln 2 in one part: n is small where e counts.
  const float shifted = std::fma(z, -kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  const float u = std::fma(-n, kLn2Hi, -z);
  float p = std::fma(kE6, u, kE5);
  p = std::fma(p, u, kE4);
  p = std::fma(p, u, kE3);
  p = std::fma(p, u, kE2);
  p = std::fma(p, u, 1.0f);
  p = std::fma(p, u, 1.0f);
  const float e = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
  const float r = 1.0f / (1.0f + e);
  const float w = t * std::fma(square, 3.0f * kGelu3, kGelu1);
  const float q = r * e * std::fma(-w, r, 1.0f);
  return x < 0.0f ? q : 1.0f - q;
}

// P(x) + x p(x), the normal distribution and its density; see gelu_erf_f32() for the tail.
float gelu_erf_slope(float x) {
  x = clamp(x, kErfMax);
  const auto [e, tail] = normal_tail_f32(std::fabs(x));
  return std::fma(x * e, kInvSqrt2Pi, x > 0.0f ? 1.0f - tail : tail);
}

}  // namespace

void relu_backward(const float* y, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}
void sigmoid_backward(const float* y, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}
void tanh_backward(const float* y, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * std::fma(-y[i], y[i], 1.0f);
}
void silu_backward(const float* x, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * silu_slope(x[i]);
}
void gelu_backward(const float* x, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * gelu_slope(x[i]);
}
void gelu_erf_backward(const float* x, const float* dy, float* dx, size_t count) {
  for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * gelu_erf_slope(x[i]);
}
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gate[i], u = up[i], d = dy[i];
    dgate[i] = d * u * silu_slope(g);
    dup[i] = d * silu_f32(g);
  }
}
void geglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gate[i], u = up[i], d = dy[i];
    dgate[i] = d * u * gelu_slope(g);
    dup[i] = d * gelu_f32(g);
  }
}

void softmax_backward(const float* y, const float* dy, float* dx, size_t count) {
  const float total = dot(y, dy, count);
  for (size_t i = 0; i < count; ++i) dx[i] = y[i] * (dy[i] - total);
}

}  // namespace butterfly::kernels::ref
