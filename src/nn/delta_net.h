// Linear attention by the gated delta rule: a short convolution over time, then a recurrence in which each
// head keeps a matrix instead of the keys and values of all positions.
#pragma once
#include <string>

#include "nn/linear.h"
#include "nn/norm.h"

namespace butterfly::nn {

struct DeltaNet {
  Linear qkv;          // queries and keys of key heads, values of value heads
  Linear z;            // what the outputs are gated by
  Linear beta, alpha;  // one for each value head
  Parameter conv;      // [taps, columns of qkv], floats
  Parameter a, dt;     // [value heads]
  Norm norm;           // of a head's outputs
  Linear out;
  // Without the parameters and the place. Where a group shares the layer (`out` has owners): the value heads
  // that reach into this member's columns of `out`, with their key heads; none: it has no part.
  graph::GatedDeltaShape shape;
  size_t columns_before = 0;  // of the first value head, which are another member's
  size_t layer = 0;           // within the range
  float eps = 1e-6f;          // shortest length of queries and keys
  std::string name;

  ValueId build(Builder& b, ValueId x) const;
};

// What the state of such a layer takes, in floats.
struct DeltaNetState {
  size_t conv = 0;  // the last rows, rounded up so that the matrices are aligned
  size_t matrices = 0;
  size_t conv_guess = 0, matrix_guess = 0;  // of one guessed row
  size_t floats() const { return conv + matrices; }
  size_t guess_floats() const { return conv_guess + matrix_guess; }
};
DeltaNetState delta_net_state(const graph::GatedDeltaShape& shape, size_t taps);

}  // namespace butterfly::nn
