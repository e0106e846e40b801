#include "kernels/recurrent/causal_conv.h"

#include <cmath>

#include "kernels/math/math.h"

namespace butterfly::kernels::ref {

void causal_conv(const CausalConv& conv, const float* const* x, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float sum = x[0][i] * conv.weights[i];
    for (size_t j = 1; j < conv.taps; ++j)
      sum = std::fma(x[j][i], conv.weights[j * conv.weight_stride + i], sum);
    if (conv.bias != nullptr) sum += conv.bias[i];
    out[i] = conv.silu ? silu_f32(sum) : sum;
  }
}

}  // namespace butterfly::kernels::ref
