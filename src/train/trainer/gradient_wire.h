// Gradients on their way to other machines: as they are, or in fewer bits where the user asks for that.
//
// What coding loses is lost on one machine too, in the same places: gradients are coded in slots, subtrees of
// the tree over micro-batches whose number is a setting of the run. So the weights depend on mode and slots,
// and not on who computed which slot.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "train/optim/parameter_layout.h"

namespace butterfly::train {

enum class WireMode : uint8_t {
  kExact,  // f32
  kBf16,
  kInt8,  // blocks with a scale; what is lost is added to the same slot's gradients of the next step
  // A slot makes several steps of its own before its change of the weights is sent, coded as kInt8 does.
  kLocalSteps,
  kLocalStepsInt4,  // the same, coded in blocks of 4 bits
};

std::string_view wire_mode_name(WireMode mode);
// "auto" is exact: what loses something is never chosen, only named (runtime/training/wire_forecast.h).
// Throws Error kInvalidArgument naming the key.
WireMode wire_mode_by_name(std::string_view name);
// Of what lies side by side in a code.
inline size_t wire_element_bytes(WireMode mode) {
  return mode == WireMode::kExact ? 4 : mode == WireMode::kBf16 ? 2 : 1;
}
inline bool makes_local_steps(WireMode mode) {
  return mode == WireMode::kLocalSteps || mode == WireMode::kLocalStepsInt4;
}
inline bool has_residuals(WireMode mode) { return mode == WireMode::kInt8 || makes_local_steps(mode); }

// Code of flat arrays of one layout: norm block behind norm block, so that a shard's code lies together and
// does not depend on where shards are cut. Statistics of networks stay floats. Borrows the layout. Immutable.
class GradientWire {
 public:
  GradientWire(const ParameterLayout& layout, WireMode mode);

  WireMode mode() const { return mode_; }
  // Where the code of a shard begins in that of all, and its length.
  size_t offset(const Shard& shard) const { return offsets_[shard.begin]; }
  size_t bytes(const Shard& shard) const { return offsets_[shard.end] - offsets_[shard.begin]; }
  size_t bytes() const { return offsets_.back(); }

  // The blocks of a shard, of whole arrays: gradients [layout.total()] become what decode() gives; code
  // [bytes()]. residual [layout.total()]: null where the mode has none.
  void encode(const Shard& shard, float* gradients, float* residual, std::byte* code, ThreadPool& pool) const;
  // gradients [shard_floats(shard)], gaps included. On one thread.
  void decode(const Shard& shard, const std::byte* code, float* gradients) const;

 private:
  bool is_float(const NormBlock& block) const;
  size_t block_bytes(const NormBlock& block) const;

  const ParameterLayout& layout_;
  const WireMode mode_;
  std::vector<size_t> offsets_;  // by norm block, and the end
};

}  // namespace butterfly::train
