// What a planner must know of one piece of a model: work per step, bytes to hold, bytes to hand on. No model
// here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cost/group.h"

namespace butterfly::cluster {

// Work of one step over one piece. A multiply-add is two flops: a product of [m, k] with [n, k] is 2 m n k,
// and attention counts both of its products.
struct Work {
  double f32_flops = 0;         // products with float weights
  double int8_ops = 0;          // products with quantised weights
  double other_flops = 0;       // attention, norms, activations: floats, far from the peak
  double weight_bytes = 0;      // parameters read: of experts, the expected number touched
  double kv_bytes = 0;          // key/value cache read and written
  double activation_bytes = 0;  // values read and written

  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
  Work& operator+=(const Work& other) {
    f32_flops += other.f32_flops;
    int8_ops += other.int8_ops;
    other_flops += other.other_flops;
    weight_bytes += other.weight_bytes;
    kv_bytes += other.kv_bytes;
    activation_bytes += other.activation_bytes;
    return *this;
  }
  Work& operator-=(const Work& other) {
    f32_flops -= other.f32_flops;
    int8_ops -= other.int8_ops;
    other_flops -= other.other_flops;
    weight_bytes -= other.weight_bytes;
    kv_bytes -= other.kv_bytes;
    activation_bytes -= other.activation_bytes;
    return *this;
  }
};

// A part of the chain that stays whole on one node (or is shared by the members of a group).
struct Piece {
  std::string name;   // "embedding", "block 0", "head"
  bool tied = false;  // to the piece before it: both are on one node
  Work decode = {};   // one step: one token of each stream of the batch
  Work prefill = {};  // the whole prompt of one stream

  uint64_t weight_bytes = 0;  // in memory
  uint64_t kv_bytes = 0;      // in memory, for all streams at full context

  double decode_out_bytes = 0;  // handed to the next piece, or back to the coordinator by the last
  double prefill_out_bytes = 0;

  // When a group of nodes shares the piece. Products that are summed over the members: how many a step has,
  // and the bytes of all those sums; each member sends every other one the sum of each whole subtree that it
  // owns.
  double exchanges = 0;
  double decode_sum_bytes = 0;
  double prefill_sum_bytes = 0;
  // A step has so many rows that members finish some for each other, as they do with prompts.
  bool decode_is_long = false;
  // Outputs that everybody needs: each member sends its share of them to every other one.
  double decode_spread_bytes = 0;
  double prefill_spread_bytes = 0;
  // Outputs that stand together in the end: each member hands its share of them to the first one.
  double decode_gather_bytes = 0;
  double prefill_gather_bytes = 0;

  // Of all that, what every member has and does, whatever its share: tables, keys and values of heads that a
  // cut goes through, recurrent layers of one shard.
  uint64_t whole_bytes = 0;
  Work decode_whole = {};
  Work prefill_whole = {};

  uint64_t memory_bytes() const { return weight_bytes + kv_bytes; }
  Exchanged decode_exchanged() const {
    return exchanged(decode_is_long, decode_sum_bytes, decode_spread_bytes, decode_gather_bytes);
  }
  Exchanged prefill_exchanged() const {
    return exchanged(true, prefill_sum_bytes, prefill_spread_bytes, prefill_gather_bytes);
  }

 private:
  Exchanged exchanged(bool is_long, double sum_bytes, double spread_bytes, double gather_bytes) const {
    if (is_long)
      return {.long_exchanges = exchanges,
              .long_sum_bytes = sum_bytes,
              .spread_bytes = spread_bytes,
              .gather_bytes = gather_bytes};
    return {.exchanges = exchanges,
            .sum_bytes = sum_bytes,
            .spread_bytes = spread_bytes,
            .gather_bytes = gather_bytes};
  }
};

// The chain, and what enters it.
struct PieceList {
  std::string model;  // for people
  std::vector<Piece> pieces;
  double decode_in_bytes = 0;  // coordinator to first piece: token ids
  double prefill_in_bytes = 0;
  // Equal parts that every piece can be cut into, a power of two: members of a group have whole ones. 1:
  // pieces are not shared.
  size_t share_units = 8;
  // For what the figures above hold.
  size_t batch = 1;    // streams in one step
  size_t streams = 1;  // that the cache has room for
  size_t context = 0;  // positions of each
  size_t prompt = 0;   // tokens of the prefill
};

}  // namespace butterfly::cluster
