// Adam, and AdamW, whose decay is no part of the gradient.
#include <fmt/format.h>

#include "kernels/optim/adam_bf16.h"
#include "kernels/optim/optimizer_update.h"
#include "train/optim/rows.h"

namespace butterfly::train {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, const ParameterLayout& layout, bool decoupled)
      : Optimizer(options, layout), decoupled_(decoupled) {
    const size_t bytes = layout.total() * (options.bf16_moments ? sizeof(uint16_t) : sizeof(float));
    first_ = Buffer::allocate(bytes);
    second_ = Buffer::allocate(bytes);
  }

  std::vector<StateArray> state() override {
    return {{"adam.m", first_.bytes()}, {"adam.v", second_.bytes()}};
  }

 private:
  void apply(const Update& update, ThreadPool& pool) override {
    const kernels::AdamStep adam{.lr = update.lr,
                                 .beta1 = options().beta1,
                                 .beta2 = options().beta2,
                                 .eps = options().eps,
                                 .decay = update.decay,
                                 .decoupled = decoupled_,
                                 .step = update.step,
                                 .grad_scale = update.grad_scale};
    if (!options().bf16_moments) {
      kernels::adam_update(adam, update.gradient, update.weights, moments<float>(first_, update),
                           moments<float>(second_, update), update.count, pool);
      return;
    }
    const uint32_t key =
        kernels::mix_bits(static_cast<uint32_t>(update.parameter), static_cast<uint32_t>(update.step));
    kernels::adam_update_bf16(adam, update.gradient, update.weights, moments<uint16_t>(first_, update),
                              moments<uint16_t>(second_, update), update.count, key, pool, update.first);
  }

  template <typename T>
  static T* moments(const Buffer& buffer, const Update& update) {
    return reinterpret_cast<T*>(buffer.data()) + update.offset;
  }

  bool decoupled_;
  Buffer first_, second_;
};

}  // namespace

std::string adam_why_not(const OptimizerOptions& options) {
  if (options.nesterov) return fmt::format("nesterov: expected optimizer sgd, found {}", options.name);
  return {};
}

std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options, const ParameterLayout& layout) {
  return std::make_unique<Adam>(options, layout, /*decoupled=*/false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options, const ParameterLayout& layout) {
  return std::make_unique<Adam>(options, layout, /*decoupled=*/true);
}

}  // namespace butterfly::train
