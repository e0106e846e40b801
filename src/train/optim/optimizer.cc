#include "train/optim/optimizer.h"

#include "kernels/elementwise/elementwise.h"

namespace butterfly::train {

void Optimizer::update(size_t parameter, const float* gradient, double lr, uint64_t step, float grad_scale,
                       ThreadPool& pool) {
  const graph::Parameter& target = layout_.parameter(parameter);
  float* values = target.value.data<float>();
  const size_t count = layout_.count(parameter);
  if (target.statistic) {
    constexpr float kMove = 0.1f;
    kernels::scale(values, 1 - kMove, values, count);
    kernels::add_scaled(values, gradient, kMove * grad_scale, values, count);
    return;
  }
  const bool decays = options_.decay_vectors || target.value.rank() > 1;
  apply({.parameter = parameter,
         .offset = layout_.offset(parameter),
         .count = count,
         .gradient = gradient,
         .weights = values,
         .lr = lr,
         .decay = decays ? options_.weight_decay : 0,
         .step = step,
         .grad_scale = grad_scale},
        pool);
}

void Optimizer::update_all(const float* gradients, double lr, uint64_t step, float grad_scale,
                           size_t micro_batches, ThreadPool& pool) {
  for (size_t i = 0; i < layout_.size(); ++i)
    update(i, gradients + layout_.offset(i), lr, step,
           layout_.parameter(i).statistic ? 1.0f / static_cast<float>(micro_batches) : grad_scale, pool);
}

size_t Optimizer::state_bytes() {
  size_t bytes = 0;
  for (const StateArray& array : state()) bytes += array.bytes.size();
  return bytes;
}

}  // namespace butterfly::train
