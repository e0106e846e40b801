// Optimizers: what a gradient does to weights, and the state kept for it. One file each, and a row in
// optimizer_table.cc.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/buffer.h"
#include "train/optim/parameter_layout.h"

namespace butterfly::train {

struct OptimizerOptions {
  std::string name = "adamw";                     // a row of optimizer_table()
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam and AdamW
  double momentum = 0;                            // SGD
  bool nesterov = false;                          // SGD: the gradient where the momentum leads to
  double weight_decay = 0;
  // Decay groups: matrices decay, vectors (norms, biases) do not, as is usual. True: all do.
  bool decay_vectors = false;
  // Adam and AdamW: moments as bf16, half the memory (kernels/optim/adam_bf16.h). Weights and gradients stay
  // floats.
  bool bf16_moments = false;
};

// One named array of state, for checkpoints.
struct StateArray {
  std::string name;  // "adam.m"
  std::span<std::byte> bytes;
};

// Weights are changed in place. Borrows the layout. Not thread-safe; each call uses the pool it is given.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const ParameterLayout& layout)
      : options_(options), layout_(layout) {}
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One parameter, with its gradient (as many floats as it has). `step` counts from 1; `lr` is its rate. A
  // statistic moves a tenth of the way to grad_scale * gradient instead.
  void update(size_t parameter, const float* gradient, double lr, uint64_t step, float grad_scale,
              ThreadPool& pool);
  // Those of a shard, whose first float `gradients` points to: the sum over `micro_batches`, of which
  // statistics take the mean. Element by element: how parameters are cut into shards does not show.
  void update_shard(const Shard& shard, const float* gradients, double lr, uint64_t step, float grad_scale,
                    size_t micro_batches, ThreadPool& pool);

  const OptimizerOptions& options() const { return options_; }
  virtual std::vector<StateArray>
  state() = 0;  // flat arrays as the layout has them; elements of one size each
  size_t state_bytes();

 protected:
  // One update of a parameter, or of a part of it.
  struct Update {
    size_t parameter;  // its number in the whole network
    size_t first;      // in the parameter, in values
    size_t offset;     // in flat arrays, in values
    size_t count;
    const float* gradient;
    float* weights;
    double lr, decay;
    uint64_t step;
    float grad_scale;
  };
  virtual void apply(const Update& update, ThreadPool& pool) = 0;

 private:
  void update_run(const NormBlock& run, const float* gradient, double lr, uint64_t step, float grad_scale,
                  ThreadPool& pool);

  OptimizerOptions options_;
  const ParameterLayout& layout_;
};

struct OptimizerRow {
  std::string_view name;  // as in configs
  std::string_view words;
  // Why these options cannot be, or nothing.
  std::string (*why_not)(const OptimizerOptions& options);
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options, const ParameterLayout& layout);
};
std::span<const OptimizerRow> optimizer_table();
// "adamw, adam, sgd"
std::string_view optimizer_names();
// The row of the options. Throws Error kInvalidArgument naming the choices, or with the row's why_not.
const OptimizerRow& checked_optimizer(const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const ParameterLayout& layout);

}  // namespace butterfly::train
