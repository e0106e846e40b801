// Stochastic gradient descent.
#include <fmt/format.h>

#include "kernels/optim/optimizer_update.h"
#include "train/optim/rows.h"

namespace butterfly::train {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const ParameterLayout& layout) : Optimizer(options, layout) {
    if (options.momentum != 0) momentum_ = Buffer::allocate(layout.total() * sizeof(float));
  }

  std::vector<StateArray> state() override {
    if (!momentum_) return {};
    return {{"sgd.momentum", momentum_.bytes()}};
  }

 private:
  void apply(const Update& update, ThreadPool& pool) override {
    auto* momentum = momentum_ ? reinterpret_cast<float*>(momentum_.data()) + update.offset : nullptr;
    kernels::sgd_update({.lr = update.lr,
                         .momentum = options().momentum,
                         .decay = update.decay,
                         .nesterov = options().nesterov,
                         .first = update.step == 1,
                         .grad_scale = update.grad_scale},
                        update.gradient, update.weights, momentum, update.count, pool);
  }

  Buffer momentum_;
};

}  // namespace

std::string sgd_why_not(const OptimizerOptions& options) {
  if (options.bf16_moments) return "bf16_moments: sgd has no moments; adam and adamw do";
  if (options.nesterov && options.momentum <= 0)
    return fmt::format("nesterov: expected a momentum above 0, found {}", options.momentum);
  return {};
}

std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options, const ParameterLayout& layout) {
  return std::make_unique<Sgd>(options, layout);
}

}  // namespace butterfly::train
