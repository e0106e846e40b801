// Depthwise convolution over time: a channel's new value is a weighted sum of its last few, the oldest first.
//
//   s = x[0] * w[0], then s = fma(x[j], w[j], s) for j in order; s + bias; silu(s) where wanted
//
// Channels do not see each other, so any part of them can be computed alone.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

inline constexpr size_t kConvTapsMax = 8;

// One position. `taps` rows of `count` channels, the oldest first, at x[0] .. x[taps - 1]; weights of tap j
// at weights + j * weight_stride. The bias may be null. `out` may be one of the rows.
struct CausalConv {
  size_t taps = 0;  // 1 to kConvTapsMax
  const float* weights = nullptr;
  size_t weight_stride = 0;
  const float* bias = nullptr;
  bool silu = false;
};
void causal_conv(const CausalConv& conv, const float* const* x, float* out, size_t count);

namespace ref {
void causal_conv(const CausalConv& conv, const float* const* x, float* out, size_t count);
}

}  // namespace butterfly::kernels
