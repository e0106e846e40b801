#include "kernels/recurrent/selective_state.h"

#include <cmath>
#include <cstring>

namespace butterfly::kernels::ref {

void selective_state(const SelectiveShape& shape, const float* from, float* to, const SelectiveToken* tokens,
                     size_t count) {
  if (from == nullptr) {
    std::memset(to, 0, shape.state_floats() * sizeof(float));
  } else {
    std::memmove(to, from, shape.state_floats() * sizeof(float));
  }
  for (size_t n = 0; n < count; ++n) {
    const SelectiveToken& token = tokens[n];
    for (size_t j = 0; j < shape.head_dim; ++j) {
      float* column = to + j / kSelectivePanel * shape.state_dim * kSelectivePanel + j % kSelectivePanel;
      const float brought = token.x[j] * token.dt;
      float answer = 0;
      for (size_t i = 0; i < shape.state_dim; ++i) {
        float& s = column[i * kSelectivePanel];
        s = std::fma(token.b[i], brought, s * token.decay);
        answer = std::fma(s, token.c[i], answer);
      }
      if (token.out != nullptr) token.out[j] = std::fma(token.x[j], shape.skip, answer);
    }
  }
}

}  // namespace butterfly::kernels::ref
