// Steps of training: micro-batches over workers, gradients by a fixed tree, one update of the weights.
//
// A step has three parts, which one machine does one behind the other and several machines share:
//   leaf     leaves(): gradients of micro-batches, summed up as far as they are neighbours
//   reduce   a GradientTree finishes the sum of all micro-batches
//   update   squares(), for the norm of all gradients; then update(), for a shard of the parameters
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "graph/executor.h"
#include "tensor/pooled_array.h"
#include "train/data/workers.h"
#include "train/optim/optimizer.h"
#include "train/trainer/gradient_tree.h"
#include "train/trainer/gradient_wire.h"
#include "train/trainer/leaf_stream.h"
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
  // Micro-batches of texts are run up to their last target. The weights are the same, bit for bit; the loss
  // that is shown is a sum over fewer rows, whose last bits may differ.
  bool shorten = true;
  // How gradients are coded for other machines, and so on this one too: each of `slots` parts of a step's
  // micro-batches by itself. `exact` has no slots.
  WireMode wire = WireMode::kExact;
  size_t slots = 1;
  // With local-steps (DiLoCo), coded in 8 bits or 4: the steps that every slot makes by itself, with
  // `optimizer` and moments of its own, before its change of the weights counts; the mean change by targets
  // is a gradient for SGD with Nesterov momentum.
  size_t local_steps = 1;
  double outer_lr = 0.7, outer_momentum = 0.9;
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

// What a step is made of, as all who share it know it before they begin.
struct StepShape {
  size_t micro_batches = 0;
  size_t targets = 0;  // of all micro-batches: the loss is their mean
};

struct LeafReport {
  double loss = 0;  // its part of the mean
  size_t correct = 0;
};

// Throws Error kInvalidArgument for micro-batches without a target.
StepShape step_shape(std::span<const MicroBatch> batches);
// From the reports of all micro-batches, in their order: loss, targets, correct.
StepReport step_report(const StepShape& shape, std::span<const LeafReport> reports);

// What micro-batches of a step give.
struct LeafSums {
  std::vector<LeafReport> reports;    // by micro-batch
  std::vector<LeafSubtree> subtrees;  // none where a stream has taken them
  double utilisation = 0;
  double coding_seconds = 0;
  size_t made = 0, targets = 0;  // micro-batches, and their targets: fewer where local steps were cut short
};

struct TrainerMemory {
  size_t frozen = 0;  // bytes, as all here: weights that do not learn
  size_t weights = 0, gradients = 0, optimizer = 0;
  size_t activations = 0;  // arenas of all workers
  size_t live_max = 0;     // of one worker: no plan can be smaller
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

  // ---- The parts of a step ----
  // Gradients of the micro-batches from `first` on, whole slots where there are any; residuals of those
  // change. The weights stay. With a stream sums go there in buckets, the same bits: with one worker the
  // backward pass still computes the rest of the subtree by then. What the stream throws is passed on.
  // Local steps end once `cut` is set, each slot with the change it has by then: its weight in the sum is
  // that of the targets it has seen, of all targets of the step.
  LeafSums leaves(const StepShape& shape, size_t first, std::span<const MicroBatch> batches,
                  const LeafStream* stream = nullptr, const std::atomic<bool>* cut = nullptr);
  // Squares of the norm blocks of a shard; `gradients` points to its first float.
  std::vector<float> squares(const Shard& shard, const float* gradients);
  // From the squares of all blocks. Throws Error kInvalidArgument naming step and parameter where one is not
  // finite: nothing has changed then.
  double norm(std::span<const float> squares) const;
  // One update of the weights of a shard from the sum over all micro-batches. Whoever has updated, or got,
  // all weights calls set_step_count(). `scale`: of local steps of which some were cut short, all targets by
  // those that were seen.
  void update(const Shard& shard, const float* gradients, double norm, size_t micro_batches, float scale = 1);

  uint64_t step_count() const { return step_; }
  double rate() const { return options_.schedule.rate(step_); }  // of the next step
  // Everything that decides how the run goes on besides the data: arrays to save, or to fill from a
  // checkpoint together with set_step_count().
  std::vector<StateArray> state();
  // Those of the optimizer alone: flat arrays as the layout has them.
  std::vector<StateArray> optimizer_state() { return optimizer_->state(); }
  void set_step_count(uint64_t step) { step_ = step; }
  // What coding has left of the gradients of these slots, and with local-steps their moments; an array for
  // each, or none in modes without.
  std::vector<StateArray> residuals(size_t begin, size_t end);
  size_t slots() const { return options_.slots; }
  size_t slot_bytes() const { return slot_floats_ * sizeof(float); }  // of such an array
  const GradientWire& wire() const { return *wire_; }

  const ParameterLayout& layout() const { return *layout_; }
  TrainerMemory memory() const;
  // The first worker's graph for micro-batches of this size, for training or for evaluation; built if there
  // is none yet.
  const graph::Executor& executor(size_t items, bool training = true);

 private:
  struct Worker;
  struct Lane;
  Lane& lane(Worker& worker, size_t items, bool training, size_t length = 0);
  void bind_gradients(graph::Graph& graph, const BuiltNetwork& built);
  void run_batch(Worker& worker, const MicroBatch& batch, size_t index, float factor, bool training,
                 LeafReport& report);
  // Micro-batches from `first` on of a step of so many targets; one report each. Returns the part of the
  // workers' time spent in them.
  double run_all(std::span<const MicroBatch> batches, size_t first, size_t targets, bool training,
                 std::span<LeafReport> reports);
  ThreadPool& update_pool();
  uint32_t slot_level(size_t micro_batches) const;
  // Runs a lane on the last micro-batch of a subtree, and gives its buckets to the stream.
  void run_in_buckets(Lane& lane, LeafSubtree subtree, std::span<const GradientSum> rest, ThreadPool& pool);
  // What is whole of a subtree, where its mode says so.
  void code(LeafSubtree& subtree, const Shard& part);
  // Codes subtrees that are whole, and keeps them or gives them to the stream.
  void deliver(LeafSubtree subtree, LeafSums& sums, const LeafStream* stream);
  LeafSums local_leaves(const StepShape& shape, size_t first, std::span<const MicroBatch> batches,
                        const LeafStream* stream, const std::atomic<bool>* cut);
  // Returns how many of the micro-batches it has used: all, unless it was cut short.
  size_t run_local_steps(size_t slot, size_t first, std::span<const MicroBatch> batches,
                         std::span<LeafReport> reports, size_t targets, const std::atomic<bool>* cut);
  void copy_weights(float* flat, bool back);
  float* residual(size_t slot);

  const TrainableNetwork& network_;
  TrainerOptions options_;
  size_t length_ = 1;     // targets per item
  size_t sequences_ = 1;  // that these belong to
  uint64_t step_ = 0;
  double lr_ = 0;  // of the step that runs
  std::unique_ptr<ParameterLayout> layout_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<GradientTree> tree_;
  std::unique_ptr<GradientWire> wire_;
  std::vector<std::vector<float>> residuals_;  // by slot; empty until it is used
  size_t slot_floats_ = 0;
  // With local-steps: the optimizer of the slot whose steps are made, and where its leaves begin.
  std::unique_ptr<Optimizer> inner_;
  size_t leaf_base_ = 0;
  // While leaves() runs micro-batches whose sums go out in buckets.
  const LeafStream* stream_ = nullptr;
  double coding_seconds_ = 0;
  // With several workers: their threads, and a pool for the update after them.
  std::unique_ptr<Workers> threads_;
  std::unique_ptr<ThreadPool> update_pool_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace butterfly::train
