// Activation functions over float arrays, and their gated forms. Definitions and accuracy: math.h.
//
// Any size and alignment. `out` may be one of the inputs, but must not overlap one otherwise.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

void relu(const float* a, float* out, size_t count);  // a < 0 gives 0, NaN stays NaN
void sigmoid(const float* a, float* out, size_t count);
void tanh(const float* a, float* out, size_t count);
void silu(const float* a, float* out, size_t count);
void gelu(const float* a, float* out, size_t count);      // tanh form
void gelu_erf(const float* a, float* out, size_t count);  // exact form

void swiglu(const float* gate, const float* up, float* out, size_t count);  // silu(gate) * up
void geglu(const float* gate, const float* up, float* out, size_t count);   // gelu(gate) * up, tanh form

// gpt-oss: g * sigmoid(1.702 g) * (u + 1) with g = min(gate, 7) and u = up within -7 and 7.
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count);
inline constexpr float kSwigluLimit = 7.0f, kSwigluSlope = 1.702f;

// The plain loops (ref/activation.cc).
namespace ref {
void relu(const float* a, float* out, size_t count);
void sigmoid(const float* a, float* out, size_t count);
void tanh(const float* a, float* out, size_t count);
void silu(const float* a, float* out, size_t count);
void gelu(const float* a, float* out, size_t count);
void gelu_erf(const float* a, float* out, size_t count);
void swiglu(const float* gate, const float* up, float* out, size_t count);
void geglu(const float* gate, const float* up, float* out, size_t count);
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
