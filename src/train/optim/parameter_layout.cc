#include "train/optim/parameter_layout.h"

#include <algorithm>

#include "kernels/optim/optimizer_update.h"
#include "tensor/buffer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLineFloats = kAlignment / sizeof(float);

}  // namespace

ParameterLayout::ParameterLayout(std::span<const graph::Parameter* const> parameters,
                                 std::vector<size_t> numbers)
    : parameters_(parameters.begin(), parameters.end()), numbers_(std::move(numbers)) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    offsets_.push_back(total_);
    for (size_t first = 0; first < count(i); first += kernels::kNormBlock)
      blocks_.push_back({.parameter = i,
                         .first = first,
                         .count = std::min(kernels::kNormBlock, count(i) - first),
                         .offset = total_ + first});
    total_ += (count(i) + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
}

std::vector<NormBlock> ParameterLayout::runs(const Shard& shard) const {
  std::vector<NormBlock> runs;
  for (size_t i = shard.begin; i < shard.end; ++i) {
    if (!runs.empty() && runs.back().parameter == blocks_[i].parameter)
      runs.back().count += blocks_[i].count;
    else
      runs.push_back(blocks_[i]);
  }
  return runs;
}

void ParameterLayout::clear_gaps(float* flat) const {
  for (size_t i = 0; i < size(); ++i)
    std::fill(flat + offset(i) + count(i), flat + (i + 1 < size() ? offset(i + 1) : total_), 0.0f);
}

}  // namespace butterfly::train
