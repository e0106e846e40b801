// A gated short convolution over time in the place of attention (LFM2): what it remembers is its last few
// rows.
#pragma once
#include <string>

#include "nn/linear.h"

namespace butterfly::nn {

// out(c * conv(b * x)) with b, c and x from one projection.
struct ShortConv {
  Linear b, c, x;
  Parameter conv;    // [taps, columns], floats
  Linear out;        // with owners where a group shares the layer: channels are this member's columns of it
  size_t layer = 0;  // within the range
  std::string name;

  ValueId build(Builder& builder, ValueId rows) const;
};

// What its state takes, in floats: the rows before, and one for each guess.
inline size_t short_conv_floats(size_t taps, size_t columns) { return (taps - 1) * columns; }

}  // namespace butterfly::nn
