#include "kernels/recurrent/selective_state_backward.h"

#include <cmath>
#include <cstring>

#include "kernels/ref/panel_total.h"

namespace butterfly::kernels::ref {

void selective_state_backward(const SelectiveShape& shape, const float* before, const SelectiveToken& token,
                              float* gradient, SelectiveGradient& to, float* spare) {
  const size_t states = shape.state_dim;
  float *b_parts = spare, *c_parts = spare + kSelectivePanel * states;
  std::memset(spare, 0, selective_spare_floats(shape) * sizeof(float));
  float decay_parts[kSelectivePanel] = {}, dt_parts[kSelectivePanel] = {};
  for (size_t j = 0; j < shape.head_dim; ++j) {
    const size_t first = j / kSelectivePanel * states * kSelectivePanel + j % kSelectivePanel,
                 part = j % kSelectivePanel;
    const float* s = before + first;
    float* g = gradient + first;
    const float u = token.x[j] * token.dt, dout = to.dout[j];
    float slope = 0, fading = 0;
    for (size_t i = 0; i < states; ++i) {
      const size_t at = i * kSelectivePanel;
      const float grown = std::fma(token.c[i], dout, g[at]);
      c_parts[at + part] = std::fma(std::fma(token.b[i], u, s[at] * token.decay), dout, c_parts[at + part]);
      b_parts[at + part] = std::fma(grown, u, b_parts[at + part]);
      slope = std::fma(grown, token.b[i], slope);
      fading = std::fma(grown, s[at], fading);
      g[at] = grown * token.decay;
    }
    to.dx[j] = std::fma(slope, token.dt, dout * shape.skip);
    dt_parts[part] = std::fma(slope, token.x[j], dt_parts[part]);
    decay_parts[part] += fading;
  }
  for (size_t i = 0; i < states; ++i) {
    to.db[i] += panel_total(b_parts + i * kSelectivePanel);
    to.dc[i] += panel_total(c_parts + i * kSelectivePanel);
  }
  to.ddecay = panel_total(decay_parts);
  to.ddt = panel_total(dt_parts);
}

}  // namespace butterfly::kernels::ref
