// Where parameters stand in flat arrays.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "graph/parameter.h"

namespace butterfly::train {

// Where every parameter stands in flat arrays of gradients and moments: each begins at a cache line, so that
// one array holds all and a part of it can be sent as it is. Borrows the parameters. Immutable: any thread
// may use it.
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

}  // namespace butterfly::train
