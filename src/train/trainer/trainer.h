// Steps of training: micro-batches over workers, gradients by a fixed tree, one update of the weights.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/executor.h"
#include "train/data/workers.h"
#include "train/optim/optimizer.h"
#include "train/trainer/gradient_tree.h"
#include "train/trainer/network.h"
#include "train/trainer/schedule.h"

namespace butterfly::train {

struct TrainerOptions {
  OptimizerOptions optimizer = {};
  Schedule schedule = {};
  double clip_norm = 0;  // of all gradients together; 0: none
  uint64_t seed = 1;     // of dropout
  // Workers take micro-batches, each with threads of its own inside the ops. The weights do not depend on
  // either number.
  size_t workers = 1;
  size_t threads_per_worker = 0;  // 0: all CPUs divided by the workers
  // Weights change as soon as their gradient is complete, so that gradients of all weights are never there at
  // once: with Adam a quarter less memory. Only without clipping, with one worker and one micro-batch a step;
  // the weights are the same, bit for bit.
  bool update_in_backward = false;
  // Values of the forward pass are computed again in the backward pass where that saves memory
  // (graph/recompute.h). The weights are the same, bit for bit.
  bool recompute = false;
};

struct StepReport {
  double loss = 0;       // mean over the targets
  double grad_norm = 0;  // before clipping; 0 with update_in_backward
  double lr = 0;
  size_t targets = 0;
  size_t correct = 0;  // largest logit at the target
  double seconds = 0;
  double utilisation = 0;  // share of the workers' time spent in micro-batches
};

struct TrainerMemory {
  size_t weights = 0, gradients = 0, optimizer = 0;  // bytes
  size_t activations = 0;                            // arenas of all workers
  size_t live_max = 0;                               // of one worker: no plan can be smaller
};

// Borrows the network and changes its weights. Not thread-safe: one thread calls, workers run inside.
class Trainer {
 public:
  // Throws Error kInvalidArgument for options that exclude each other.
  Trainer(const TrainableNetwork& network, const TrainerOptions& options);
  ~Trainer();

  // One update from all micro-batches, which may be of unequal size: a target counts the same in each.
  StepReport step(std::span<const MicroBatch> batches);
  // Loss and accuracy without dropout; the weights stay. Report: loss, targets, correct, seconds.
  StepReport evaluate(std::span<const MicroBatch> batches);

  uint64_t step_count() const { return step_; }
  // Everything that decides how the run goes on besides the data: arrays to save, or to fill from a
  // checkpoint together with set_step_count().
  std::vector<StateArray> state();
  void set_step_count(uint64_t step) { step_ = step; }

  const ParameterLayout& layout() const { return *layout_; }
  TrainerMemory memory() const;
  // The first worker's graph for micro-batches of this size, for training or for evaluation; built if there
  // is none yet.
  const graph::Executor& executor(size_t items, bool training = true);

 private:
  struct Worker;
  struct Lane;
  Lane& lane(Worker& worker, size_t items, bool training);
  void bind_gradients(graph::Graph& graph, const BuiltNetwork& built);
  void run_batch(Worker& worker, const MicroBatch& batch, size_t index, float factor, bool training,
                 StepReport& report);
  StepReport run_all(std::span<const MicroBatch> batches, bool training);

  const TrainableNetwork& network_;
  TrainerOptions options_;
  size_t length_ = 1;  // targets per item
  uint64_t step_ = 0;
  double lr_ = 0;  // of the step that runs
  std::unique_ptr<ParameterLayout> layout_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientTree> tree_;
  // With several workers: their threads, and a pool for the update after them.
  std::unique_ptr<Workers> threads_;
  std::unique_ptr<ThreadPool> update_pool_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace butterfly::train
