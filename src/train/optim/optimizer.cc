#include "train/optim/optimizer.h"

#include <cmath>

#include "base/error.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/optim/adam_bf16.h"
#include "kernels/optim/optimizer_update.h"

namespace butterfly::train {
namespace {

struct Row {
  std::string_view name;
  OptimizerKind kind;
};
constexpr Row kRows[] = {
    {"sgd", OptimizerKind::kSgd}, {"adam", OptimizerKind::kAdam}, {"adamw", OptimizerKind::kAdamW}};

constexpr size_t kLineFloats = kAlignment / sizeof(float);

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

}  // namespace

OptimizerKind optimizer_by_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.kind;
  fail(Errc::kInvalidArgument, "optimizer '{}': expected sgd, adam or adamw", name);
}

std::string_view optimizer_name(OptimizerKind kind) {
  for (const Row& row : kRows)
    if (row.kind == kind) return row.name;
  return "";
}

ParameterLayout::ParameterLayout(std::span<const graph::Parameter* const> parameters)
    : parameters_(parameters.begin(), parameters.end()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    offsets_.push_back(total_);
    total_ += (count(i) + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
}

Optimizer::Optimizer(const OptimizerOptions& options, const ParameterLayout& layout)
    : options_(options), layout_(layout) {
  const bool half = options.bf16_moments && options.kind != OptimizerKind::kSgd;
  const size_t bytes = layout.total() * (half ? sizeof(uint16_t) : sizeof(float));
  if (options.kind != OptimizerKind::kSgd || options.momentum != 0) first_ = Buffer::allocate(bytes);
  if (options.kind != OptimizerKind::kSgd) second_ = Buffer::allocate(bytes);
}

void Optimizer::update(size_t parameter, const float* gradient, double lr, uint64_t step, float grad_scale,
                       ThreadPool& pool) {
  const graph::Parameter& target = layout_.parameter(parameter);
  if (target.statistic) {
    constexpr float kMove = 0.1f;
    auto* values = target.value.data<float>();
    kernels::scale(values, 1 - kMove, values, layout_.count(parameter));
    kernels::add_scaled(values, gradient, kMove * grad_scale, values, layout_.count(parameter));
    return;
  }
  const bool decays = options_.decay_vectors || target.value.rank() > 1;
  const double decay = decays ? options_.weight_decay : 0;
  float* weights = target.value.data<float>();
  const size_t at = layout_.offset(parameter), count = layout_.count(parameter);
  if (options_.kind == OptimizerKind::kSgd) {
    kernels::sgd_update({.lr = lr,
                         .momentum = options_.momentum,
                         .decay = decay,
                         .nesterov = options_.nesterov,
                         .first = step == 1,
                         .grad_scale = grad_scale},
                        gradient, weights, first_ ? floats(first_) + at : nullptr, count, pool);
    return;
  }
  const kernels::AdamStep adam{.lr = lr,
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .eps = options_.eps,
                               .decay = decay,
                               .decoupled = options_.kind == OptimizerKind::kAdamW,
                               .step = step,
                               .grad_scale = grad_scale};
  if (!options_.bf16_moments) {
    kernels::adam_update(adam, gradient, weights, floats(first_) + at, floats(second_) + at, count, pool);
    return;
  }
  const uint32_t key = kernels::mix_bits(static_cast<uint32_t>(parameter), static_cast<uint32_t>(step));
  kernels::adam_update_bf16(adam, gradient, weights, reinterpret_cast<uint16_t*>(first_.data()) + at,
                            reinterpret_cast<uint16_t*>(second_.data()) + at, count, key, pool);
}

void Optimizer::update_all(const float* gradients, double lr, uint64_t step, float grad_scale,
                           size_t micro_batches, ThreadPool& pool) {
  for (size_t i = 0; i < layout_.size(); ++i)
    update(i, gradients + layout_.offset(i), lr, step,
           layout_.parameter(i).statistic ? 1.0f / static_cast<float>(micro_batches) : grad_scale, pool);
}

std::vector<StateArray> Optimizer::state() {
  std::vector<StateArray> arrays;
  if (options_.kind == OptimizerKind::kSgd) {
    if (first_) arrays.push_back({"sgd.momentum", first_.bytes()});
  } else {
    arrays.push_back({"adam.m", first_.bytes()});
    arrays.push_back({"adam.v", second_.bytes()});
  }
  return arrays;
}

double gradient_norm(const ParameterLayout& layout, const float* gradients, ThreadPool& pool) {
  double squares = 0;
  for (size_t i = 0; i < layout.size(); ++i)
    if (!layout.parameter(i).statistic)
      squares += kernels::sum_squares_blocks(gradients + layout.offset(i), layout.count(i), pool);
  return std::sqrt(squares);
}

float clip_scale(double norm, double norm_max) {
  if (norm_max <= 0 || !(norm > norm_max)) return 1;
  return static_cast<float>(norm_max / norm);
}

}  // namespace butterfly::train
