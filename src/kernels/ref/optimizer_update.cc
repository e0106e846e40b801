#include "kernels/optim/optimizer_update.h"

#include <algorithm>
#include <cmath>

#include "kernels/optim/optimizer_factors.h"
#include "kernels/rows/reduce.h"

namespace butterfly::kernels::ref {

void adam_update(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count) {
  const AdamFactors f(step);
  for (size_t i = 0; i < count; ++i) {
    const float g = std::fma(f.decay, param[i], grad[i] * f.grad_scale);
    m[i] = std::fma(f.keep_m, g - m[i], m[i]);
    v[i] = std::fma(f.keep_v, std::fma(g, g, -v[i]), v[i]);
    const float denominator = std::fma(std::sqrt(v[i]), f.root, f.eps);
    param[i] = std::fma(-f.rate, m[i] / denominator, param[i] * f.shrink);
  }
}

void sgd_update(const SgdStep& step, const float* grad, float* param, float* m, size_t count) {
  const SgdFactors f(step);
  for (size_t i = 0; i < count; ++i) {
    const float g = std::fma(f.decay, param[i], grad[i] * f.grad_scale);
    float move = g;
    if (m != nullptr) {
      m[i] = step.first ? g : std::fma(f.momentum, m[i], g);
      move = step.nesterov ? std::fma(f.momentum, m[i], g) : m[i];
    }
    param[i] = std::fma(-f.lr, move, param[i]);
  }
}

void sum_squares_blocks(const float* a, size_t count, float* sums) {
  for (size_t i = 0; i < count; i += kNormBlock)
    *sums++ = sum_squares(a + i, std::min(kNormBlock, count - i));
}

}  // namespace butterfly::kernels::ref
