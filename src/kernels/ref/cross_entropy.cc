#include "kernels/rows/cross_entropy.h"

#include <vector>

#include "kernels/math/math.h"
#include "kernels/rows/reduce.h"

namespace butterfly::kernels::ref {

void cross_entropy_backward(float* logits, size_t rows, size_t vocab, const int32_t* targets, float grad,
                            float* losses) {
  for (size_t row = 0; row < rows; ++row) {
    float* x = logits + row * vocab;
    losses[row] = 0;
    if (targets[row] < 0) {
      for (size_t i = 0; i < vocab; ++i) x[i] = 0;
      continue;
    }
    const auto target = static_cast<size_t>(targets[row]);
    const float top = max_value(x, vocab);
    const float hit = x[target] - top;
    for (size_t i = 0; i < vocab; ++i) x[i] = exp_f32(x[i] - top);
    const float total = sum(x, vocab);
    losses[row] = log_f32(total) - hit;
    const float factor = grad / total;
    for (size_t i = 0; i < vocab; ++i) x[i] *= factor;
    x[target] -= grad;
  }
}

void cross_entropy(const float* logits, size_t rows, size_t vocab, const int32_t* targets, float* losses) {
  std::vector<float> row(vocab);
  for (size_t r = 0; r < rows; ++r) {
    row.assign(logits + r * vocab, logits + (r + 1) * vocab);
    cross_entropy_backward(row.data(), 1, vocab, targets + r, 1.0f, losses + r);
  }
}

}  // namespace butterfly::kernels::ref
