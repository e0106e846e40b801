#include "kernels/recurrent/gated_delta_backward.h"

#include <cmath>
#include <cstring>

#include "kernels/ref/panel_total.h"

namespace butterfly::kernels::ref {

void gated_delta_backward(const DeltaShape& shape, const float* before, const DeltaToken& token,
                          float* gradient, DeltaGradient& to, float* spare) {
  const size_t keys = shape.key_dim;
  float *q_parts = spare, *k_parts = spare + kDeltaPanel * keys;
  std::memset(spare, 0, delta_spare_floats(shape) * sizeof(float));
  float decay_parts[kDeltaPanel] = {}, beta_parts[kDeltaPanel] = {};
  for (size_t j = 0; j < shape.value_dim; ++j) {
    const size_t first = j / kDeltaPanel * keys * kDeltaPanel + j % kDeltaPanel, part = j % kDeltaPanel;
    const float* s = before + first;
    float* g = gradient + first;
    const float asked = to.dout[j] * shape.scale;
    float said = 0, slope = 0;
    for (size_t i = 0; i < keys; ++i) {
      const size_t at = i * kDeltaPanel;
      said = std::fma(s[at] * token.decay, token.k[i], said);
      g[at] = std::fma(token.q[i], asked, g[at]);
      slope = std::fma(g[at], token.k[i], slope);
    }
    const float error = token.v[j] - said, delta = token.beta * error, dv = token.beta * slope;
    to.dv[j] = dv;
    beta_parts[part] = std::fma(slope, error, beta_parts[part]);
    float fading = 0;
    for (size_t i = 0; i < keys; ++i) {
      const size_t at = i * kDeltaPanel;
      const float faded = s[at] * token.decay;
      q_parts[at + part] = std::fma(std::fma(token.k[i], delta, faded), asked, q_parts[at + part]);
      k_parts[at + part] = std::fma(faded, -dv, std::fma(g[at], delta, k_parts[at + part]));
      const float corrected = std::fma(token.k[i], -dv, g[at]);
      fading = std::fma(corrected, s[at], fading);
      g[at] = corrected * token.decay;
    }
    decay_parts[part] += fading;
  }
  for (size_t i = 0; i < keys; ++i) {
    to.dq[i] += panel_total(q_parts + i * kDeltaPanel);
    to.dk[i] += panel_total(k_parts + i * kDeltaPanel);
  }
  to.ddecay = panel_total(decay_parts);
  to.dbeta = panel_total(beta_parts);
}

}  // namespace butterfly::kernels::ref
