// Optimizers: what a gradient does to weights, and the state kept for it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/parameter.h"
#include "tensor/buffer.h"

namespace butterfly::train {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam and AdamW
  double momentum = 0;                            // SGD
  bool nesterov = false;
  double weight_decay = 0;
  // Decay groups: matrices decay, vectors (norms, biases) do not, as is usual. True: all do.
  bool decay_vectors = false;
  // Adam and AdamW: moments as bf16, half the memory (kernels/optim/adam_bf16.h). Weights and gradients stay
  // floats.
  bool bf16_moments = false;
};

// "sgd", "adam", "adamw". Throws Error kInvalidArgument naming the choices.
OptimizerKind optimizer_by_name(std::string_view name);
std::string_view optimizer_name(OptimizerKind kind);

// Where every parameter stands in flat arrays of gradients and moments: each begins at a cache line, so that
// one array holds all and a part of it can be sent as it is.
class ParameterLayout {
 public:
  explicit ParameterLayout(std::span<const graph::Parameter* const> parameters);
  size_t size() const { return parameters_.size(); }
  const graph::Parameter& parameter(size_t i) const { return *parameters_[i]; }
  size_t offset(size_t i) const { return offsets_[i]; }  // in floats
  size_t count(size_t i) const { return static_cast<size_t>(parameters_[i]->value.count()); }
  size_t total() const { return total_; }  // floats of a flat array, gaps included

 private:
  std::vector<const graph::Parameter*> parameters_;
  std::vector<size_t> offsets_;
  size_t total_ = 0;
};

// One named array of state, for checkpoints.
struct StateArray {
  std::string name;  // "adam.m"
  std::span<std::byte> bytes;
};

// Weights are changed in place. Not thread-safe; each call uses the pool it is given.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const ParameterLayout& layout);

  // One parameter, with its gradient (as many floats as it has). `step` counts from 1; `lr` is its rate. A
  // statistic moves a tenth of the way to grad_scale * gradient instead.
  void update(size_t parameter, const float* gradient, double lr, uint64_t step, float grad_scale,
              ThreadPool& pool);
  // All, from a flat array: the sum over `micro_batches`, of which statistics take the mean.
  void update_all(const float* gradients, double lr, uint64_t step, float grad_scale, size_t micro_batches,
                  ThreadPool& pool);

  const OptimizerOptions& options() const { return options_; }
  std::vector<StateArray> state();
  size_t state_bytes() const { return first_.size() + second_.size(); }

 private:
  OptimizerOptions options_;
  const ParameterLayout& layout_;
  Buffer first_;   // momentum, or Adam's m
  Buffer second_;  // Adam's v
};

// The norm of all gradients in a flat array: squares of fixed blocks, added in double in order.
double gradient_norm(const ParameterLayout& layout, const float* gradients, ThreadPool& pool);
// What a gradient is multiplied with so that the norm is at most `norm_max` (0: no bound).
float clip_scale(double norm, double norm_max);

}  // namespace butterfly::train
