// Where parameters stand in flat arrays, and where those may be cut.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "graph/parameter.h"

namespace butterfly::train {

// A part of one parameter, of at most kernels::kNormBlock values, whose squares are summed as one.
struct NormBlock {
  size_t parameter = 0;
  size_t first = 0;  // in the parameter, in values
  size_t count = 0;
  size_t offset = 0;  // in flat arrays, in floats
};

// Neighbouring norm blocks: what one owner keeps moments of and updates. Cuts elsewhere would show in the
// norm.
struct Shard {
  size_t begin = 0, end = 0;  // blocks
  bool empty() const { return begin == end; }
  friend bool operator==(const Shard&, const Shard&) = default;
};

// Where every parameter stands in flat arrays of gradients and moments: each begins at a cache line, so that
// one array holds all and a part of it can be sent as it is. Borrows the parameters. Immutable: any thread
// may use it.
class ParameterLayout {
 public:
  // `numbers`: those that the parameters have in the whole network, ascending, where this is a part of it.
  explicit ParameterLayout(std::span<const graph::Parameter* const> parameters,
                           std::vector<size_t> numbers = {});
  // In the whole network: what rounding of moments depends on.
  size_t number(size_t i) const { return numbers_.empty() ? i : numbers_[i]; }
  size_t size() const { return parameters_.size(); }
  const graph::Parameter& parameter(size_t i) const { return *parameters_[i]; }
  size_t offset(size_t i) const { return offsets_[i]; }  // in floats
  size_t count(size_t i) const { return static_cast<size_t>(parameters_[i]->value.count()); }
  size_t total() const { return total_; }  // floats of a flat array, gaps included

  // In the order of the parameters.
  const std::vector<NormBlock>& blocks() const { return blocks_; }
  Shard all() const { return {0, blocks_.size()}; }
  // The floats of a shard in flat arrays, from its first block to the next shard's; gaps included.
  size_t shard_offset(const Shard& shard) const { return offset_of_block(shard.begin); }
  size_t shard_floats(const Shard& shard) const {
    return offset_of_block(shard.end) - offset_of_block(shard.begin);
  }
  // The blocks of a shard as runs of values that lie side by side in one parameter.
  std::vector<NormBlock> runs(const Shard& shard) const;
  // Gaps between parameters become zero: nobody computes what lies there, but sums and messages hold it.
  void clear_gaps(float* flat) const;

 private:
  size_t offset_of_block(size_t block) const {
    return block == blocks_.size() ? total_ : blocks_[block].offset;
  }

  std::vector<const graph::Parameter*> parameters_;
  std::vector<size_t> numbers_;
  std::vector<size_t> offsets_;
  std::vector<NormBlock> blocks_;
  size_t total_ = 0;
};

}  // namespace butterfly::train
