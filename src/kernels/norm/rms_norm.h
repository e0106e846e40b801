// Root-mean-square normalisation of a row.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// out[i] = x[i] * s * weight[i], s = 1 / sqrt(mean(x^2) + eps). `weight` may be null (all ones), `out` may be
// `x`.
void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count);

// The plain loop (ref/norm.cc).
namespace ref {
void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count);
}

}  // namespace butterfly::kernels
