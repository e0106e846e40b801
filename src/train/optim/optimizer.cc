#include "train/optim/optimizer.h"

#include "kernels/elementwise/elementwise.h"

namespace butterfly::train {

void Optimizer::update_run(const NormBlock& run, const float* gradient, double lr, uint64_t step,
                           float grad_scale, ThreadPool& pool) {
  const graph::Parameter& target = layout_.parameter(run.parameter);
  float* values = target.value.data<float>() + run.first;
  if (target.statistic) {
    constexpr float kMove = 0.1f;
    kernels::scale(values, 1 - kMove, values, run.count);
    kernels::add_scaled(values, gradient, kMove * grad_scale, values, run.count);
    return;
  }
  const bool decays = options_.decay_vectors || target.value.rank() > 1;
  apply({.parameter = layout_.number(run.parameter),
         .first = run.first,
         .offset = run.offset,
         .count = run.count,
         .gradient = gradient,
         .weights = values,
         .lr = lr,
         .decay = decays ? options_.weight_decay : 0,
         .step = step,
         .grad_scale = grad_scale},
        pool);
}

void Optimizer::update(size_t parameter, const float* gradient, double lr, uint64_t step, float grad_scale,
                       ThreadPool& pool) {
  update_run({.parameter = parameter,
              .first = 0,
              .count = layout_.count(parameter),
              .offset = layout_.offset(parameter)},
             gradient, lr, step, grad_scale, pool);
}

void Optimizer::update_shard(const Shard& shard, const float* gradients, double lr, uint64_t step,
                             float grad_scale, size_t micro_batches, ThreadPool& pool) {
  for (const NormBlock& run : layout_.runs(shard))
    update_run(
        run, gradients + (run.offset - layout_.shard_offset(shard)), lr, step,
        layout_.parameter(run.parameter).statistic ? 1.0f / static_cast<float>(micro_batches) : grad_scale,
        pool);
}

size_t Optimizer::state_bytes() {
  size_t bytes = 0;
  for (const StateArray& array : state()) bytes += array.bytes.size();
  return bytes;
}

}  // namespace butterfly::train
