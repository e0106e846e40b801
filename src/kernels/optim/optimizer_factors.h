// The settings of a step as the floats its loop uses. Powers are repeated products in double: no libm.
#pragma once
#include <cmath>

#include "kernels/optim/optimizer_update.h"

namespace butterfly::kernels {

// What a step multiplies by, rounded to float once.
struct AdamFactors {
  float grad_scale;
  float keep_m, keep_v;  // 1 - beta
  float rate;            // lr / (1 - beta1^step)
  float root;            // 1 / sqrt(1 - beta2^step)
  float eps;
  float shrink;  // 1 - lr * decay, AdamW
  float decay;   // Adam

  explicit AdamFactors(const AdamStep& s)
      : grad_scale(s.grad_scale),
        keep_m(static_cast<float>(1 - s.beta1)),
        keep_v(static_cast<float>(1 - s.beta2)),
        rate(static_cast<float>(s.lr / (1 - power(s.beta1, s.step)))),
        root(static_cast<float>(1 / std::sqrt(1 - power(s.beta2, s.step)))),
        eps(static_cast<float>(s.eps)),
        shrink(s.decoupled ? static_cast<float>(1 - s.lr * s.decay) : 1.0f),
        decay(s.decoupled ? 0.0f : static_cast<float>(s.decay)) {}

 private:
  static double power(double base, uint64_t exponent) {
    double result = 1;
    for (; exponent != 0; exponent /= 2, base *= base)
      if (exponent % 2 == 1) result *= base;
    return result;
  }
};

// The same for SGD.
struct SgdFactors {
  float grad_scale, lr, momentum, decay;
  explicit SgdFactors(const SgdStep& s)
      : grad_scale(s.grad_scale),
        lr(static_cast<float>(s.lr)),
        momentum(static_cast<float>(s.momentum)),
        decay(static_cast<float>(s.decay)) {}
};

}  // namespace butterfly::kernels
