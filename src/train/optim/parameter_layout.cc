#include "train/optim/parameter_layout.h"

#include "tensor/buffer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLineFloats = kAlignment / sizeof(float);

}  // namespace

ParameterLayout::ParameterLayout(std::span<const graph::Parameter* const> parameters)
    : parameters_(parameters.begin(), parameters.end()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    offsets_.push_back(total_);
    total_ += (count(i) + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
}

}  // namespace butterfly::train
