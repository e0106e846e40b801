#include "runtime/training/train_snapshot.h"

#include <cstring>

#include "base/check.h"

namespace butterfly::runtime {

void TrainSnapshot::take(uint64_t step, train::Trainer& trainer) {
  step_ = step;
  const train::ParameterLayout& layout = trainer.layout();
  weights_.resize(layout.size());
  for (size_t i = 0; i < layout.size(); ++i) {
    const std::byte* values = layout.parameter(i).value.raw();
    weights_[i].assign(values, values + layout.count(i) * sizeof(float));
  }
  moments_.clear();
  for (const train::StateArray& array : trainer.optimizer_state())
    moments_.emplace_back(array.bytes.begin(), array.bytes.end());
  residuals_.clear();
  for (const train::StateArray& array : trainer.residuals(0, trainer.slots()))
    residuals_.emplace_back(array.bytes.begin(), array.bytes.end());
}

void TrainSnapshot::restore(const cluster::TrainPlan& plan, train::Trainer& trainer) const {
  BF_CHECK(step_ == plan.step) << "snapshot of step " << step_ << ", epoch of " << plan.step;
  const train::ParameterLayout& layout = trainer.layout();
  if (plan.weights_come)
    for (size_t i = 0; i < layout.size(); ++i)
      std::memcpy(layout.parameter(i).value.raw(), weights_[i].data(), weights_[i].size());
  if (!plan.moments_come) return;
  size_t i = 0;
  for (const train::StateArray& array : trainer.optimizer_state())
    std::memcpy(array.bytes.data(), moments_[i++].data(), array.bytes.size());
  i = 0;
  for (const train::StateArray& array : trainer.residuals(0, trainer.slots()))
    std::memcpy(array.bytes.data(), residuals_[i++].data(), array.bytes.size());
}

}  // namespace butterfly::runtime
