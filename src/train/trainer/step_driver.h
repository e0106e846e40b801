// Who carries out the steps of a run: this process alone, or several machines (runtime/training).
#pragma once
#include <span>

#include "train/trainer/trainer.h"

namespace butterfly::train {

// Of one thread. Whatever happens inside, a step leaves the trainer of this process with the weights of the
// next one, and nothing else of it shows outside.
class StepDriver {
 public:
  virtual ~StepDriver() = default;
  virtual StepReport step(std::span<const MicroBatch> batches) = 0;
  // What is kept elsewhere (moments of other owners) comes into Trainer::state(): for a checkpoint.
  virtual void gather_state() = 0;
  // All weights of the step that is done come into the trainer: for validation. Most drivers have them there.
  virtual void bring_weights() {}
};

}  // namespace butterfly::train
