#include "kernels/activation_backward.h"

#include <cmath>

#include "kernels/math.h"
#include "kernels/math_constants.h"
#include "kernels/ref/ref.h"

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

// With s = sigmoid(x (k1 + k3 x^2)): s + x s (1 - s) (k1 + 3 k3 x^2).
float gelu_slope(float x) {
  x = clamp(x, -kGateMin);
  const float square = x * x;
  const float s = sigmoid_f32(x * std::fma(square, kGelu3, kGelu1));
  return std::fma(x * s * (1.0f - s), std::fma(square, 3.0f * kGelu3, kGelu1), s);
}

// P(x) + x p(x), the normal distribution and its density; see gelu_erf_f32() for the tail.
float gelu_erf_slope(float x) {
  x = clamp(x, kErfMax);
  const float t = std::fabs(x);
  const float u = (t - kErfShift) / (t + kErfShift);
  float h = kH[9];
  for (int i = 8; i >= 0; --i) h = std::fma(h, u, kH[i]);
  const float square = t * t;
  const float error = std::fma(t, t, -square);
  float e = exp_f32(-0.5f * square);
  e = std::fma(e, -0.5f * error, e);
  const float tail = e * h;
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
