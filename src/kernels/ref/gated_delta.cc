#include "kernels/recurrent/gated_delta.h"

#include <cmath>
#include <cstring>

namespace butterfly::kernels::ref {

void gated_delta(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                 size_t count) {
  if (from == nullptr) {
    std::memset(to, 0, shape.state_floats() * sizeof(float));
  } else {
    std::memmove(to, from, shape.state_floats() * sizeof(float));
  }
  for (size_t n = 0; n < count; ++n) {
    const DeltaToken& token = tokens[n];
    for (size_t j = 0; j < shape.value_dim; ++j) {
      float* column = to + j / kDeltaPanel * shape.key_dim * kDeltaPanel + j % kDeltaPanel;
      float said = 0;
      for (size_t i = 0; i < shape.key_dim; ++i)
        said = std::fma(column[i * kDeltaPanel] * token.decay, token.k[i], said);
      const float delta = token.beta * (token.v[j] - said);
      float answer = 0;
      for (size_t i = 0; i < shape.key_dim; ++i) {
        float& s = column[i * kDeltaPanel];
        s = std::fma(token.k[i], delta, s * token.decay);
        answer = std::fma(s, token.q[i], answer);
      }
      if (token.out != nullptr) token.out[j] = answer * shape.scale;
    }
  }
}

}  // namespace butterfly::kernels::ref
