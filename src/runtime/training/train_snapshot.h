// A training run as it was after a step, whole, in memory: what members that lost their part begin with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/training/train_plan.h"
#include "train/trainer/trainer.h"

namespace butterfly::runtime {

// Of the computing thread.
class TrainSnapshot {
 public:
  uint64_t step() const { return step_; }
  // Where the run's own arrays are the snapshot.
  void set_step(uint64_t step) { step_ = step; }

  void take(uint64_t step, train::Trainer& trainer);
  // What the plan says that the leader gets. BF_CHECKs that it is the plan's step.
  void restore(const cluster::TrainPlan& plan, train::Trainer& trainer) const;

  using Views = std::vector<std::span<const std::byte>>;
  Views weights() const { return {weights_.begin(), weights_.end()}; }  // by parameter
  Views moments() const { return {moments_.begin(), moments_.end()}; }  // by array of the optimizer, whole
  Views residuals() const { return {residuals_.begin(), residuals_.end()}; }  // by slot

 private:
  uint64_t step_ = 0;
  std::vector<std::vector<std::byte>> weights_, moments_, residuals_;
};

}  // namespace butterfly::runtime
