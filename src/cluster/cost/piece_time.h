// Seconds of a piece on a node.
//
//   time = max(compute, memory) + overhead
//   compute = f32_flops / f32 rate + int8_ops / int8 rate + other_flops / other rate
//   memory  = (weight + kv + activation bytes) / memory bandwidth
//
// Rates are those of the node's threads times the measured efficiency. The larger term counts, because
// kernels stream weights while they compute; pieces are summed, because they run one after the other.
#pragma once
#include "cluster/cost/piece.h"
#include "cluster/node/node_spec.h"

namespace butterfly::cluster {

struct PieceTime {
  double compute_s = 0;
  double memory_s = 0;
  double overhead_s = 0;
  double seconds() const { return (compute_s > memory_s ? compute_s : memory_s) + overhead_s; }
};

inline PieceTime piece_time(const Work& work, const NodeSpec& node) {
  return {.compute_s = work.f32_flops / node.f32_rate() + work.int8_ops / node.int8_rate() +
                       work.other_flops / node.other_rate(),
          .memory_s = work.bytes() / node.memory_rate(),
          .overhead_s = node.piece_overhead_s};
}

}  // namespace butterfly::cluster
