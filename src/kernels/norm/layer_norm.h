// Layer normalisation of a row: mean 0, variance 1, then a learned scale and shift.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// out[i] = (x[i] - mean) * s * weight[i] + bias[i], s = 1 / sqrt(variance + eps), the last step rounded once.
// The variance is the mean of (x - mean)^2, in a second pass. `weight` and `bias` may each be null; `out` may
// be `x`.
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count);

// The plain loop (ref/norm.cc).
namespace ref {
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count);
}

}  // namespace butterfly::kernels
