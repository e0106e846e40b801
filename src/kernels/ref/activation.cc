#include "kernels/elementwise/activation.h"
#include "kernels/math/math.h"

namespace butterfly::kernels::ref {

void relu(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] < 0.0f ? 0.0f : a[i];
}
void sigmoid(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = sigmoid_f32(a[i]);
}
void tanh(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = tanh_f32(a[i]);
}
void silu(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = silu_f32(a[i]);
}
void gelu(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = gelu_f32(a[i]);
}
void gelu_erf(const float* a, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = gelu_erf_f32(a[i]);
}
void swiglu(const float* gate, const float* up, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = silu_f32(gate[i]) * up[i];
}
void geglu(const float* gate, const float* up, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = gelu_f32(gate[i]) * up[i];
}
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gate[i] > kSwigluLimit ? kSwigluLimit : gate[i];
    const float low = up[i] > kSwigluLimit ? kSwigluLimit : up[i];
    const float u = low < -kSwigluLimit ? -kSwigluLimit : low;
    out[i] = g * sigmoid_f32(kSwigluSlope * g) * (u + 1.0f);
  }
}

}  // namespace butterfly::kernels::ref
