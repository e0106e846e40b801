// Mamba-2 in the place of attention: a short convolution over time, then a recurrence in which each head
// keeps a matrix.
#pragma once
#include <string>

#include "nn/linear.h"
#include "nn/norm.h"

namespace butterfly::nn {

struct SelectiveMixer {
  Linear z;                    // what the outputs are gated by
  Linear xbc;                  // inputs of heads, what groups write to the state and read of it
  Linear dt;                   // a step for each head
  Parameter conv, conv_bias;   // [taps, columns of xbc], [columns of xbc], floats; the bias may be empty
  Parameter a, dt_bias, skip;  // [heads]
  Norm norm;                   // of the gated outputs of each group
  Linear out;
  // Without the parameters and the place. Where members share the layer (`out` has owners): the heads that
  // reach into this member's columns of `out`, with what their groups write and read; none: it has no part.
  graph::SelectiveStateShape shape;
  size_t columns_before = 0;  // of the first head, which are another member's
  // Then `norm` is of the groups that are here, or of all: outputs that it normalises together are with
  // several members, and come together at all of them first.
  bool gathers = false;
  size_t layer = 0;  // within the range
  std::string name;

  ValueId build(Builder& b, ValueId x) const;

 private:
  ValueId build_gated(Builder& b, ValueId x) const;
};

// What the state of such a layer takes, in floats.
struct SelectiveState {
  size_t conv = 0;  // the last rows, rounded up so that the matrices are aligned
  size_t matrices = 0;
  size_t conv_guess = 0, matrix_guess = 0;  // of one guessed row
  size_t floats() const { return conv + matrices; }
  size_t guess_floats() const { return conv_guess + matrix_guess; }
};
SelectiveState selective_state(const graph::SelectiveStateShape& shape, size_t taps);

}  // namespace butterfly::nn
