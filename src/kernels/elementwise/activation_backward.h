// Gradients of the activations of activation.h: dx = dy * f'(x), element by element.
//
// Any size and alignment. A result may be one of the inputs, but must not overlap one otherwise. No threads
// inside: the caller splits, and the cut changes nothing. Definitions: ref/activation_backward.cc.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

inline constexpr float kInvSqrt2Pi = 0x1.988454p-2f;  // the normal density at 0
// Beyond this the slope of gelu is 0 or 1 to less than 2^-105; within it exp(-x (kGelu1 + kGelu3 x^2)) is a
// normal number, so that one factor 2^n serves.
inline constexpr float kGeluSlopeMax = 9.75f;

// From the result (or the input; both have the same sign): dy where y > 0, else 0.
void relu_backward(const float* y, const float* dy, float* dx, size_t count);
// From the results y = sigmoid(x), y = tanh(x).
void sigmoid_backward(const float* y, const float* dy, float* dx, size_t count);
void tanh_backward(const float* y, const float* dy, float* dx, size_t count);
// From the inputs.
void silu_backward(const float* x, const float* dy, float* dx, size_t count);
void gelu_backward(const float* x, const float* dy, float* dx, size_t count);      // tanh form
void gelu_erf_backward(const float* x, const float* dy, float* dx, size_t count);  // exact form

// out = f(gate) * up: dgate = dy * up * f'(gate), dup = dy * f(gate).
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     size_t count);
void geglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    size_t count);

// A row y = softmax(x): dx = y * (dy - sum(y * dy)), the sum over the logical lanes.
void softmax_backward(const float* y, const float* dy, float* dx, size_t count);

namespace ref {
void relu_backward(const float* y, const float* dy, float* dx, size_t count);
void sigmoid_backward(const float* y, const float* dy, float* dx, size_t count);
void tanh_backward(const float* y, const float* dy, float* dx, size_t count);
void silu_backward(const float* x, const float* dy, float* dx, size_t count);
void gelu_backward(const float* x, const float* dy, float* dx, size_t count);
void gelu_erf_backward(const float* x, const float* dy, float* dx, size_t count);
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     size_t count);
void geglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    size_t count);
void softmax_backward(const float* y, const float* dy, float* dx, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
