// The outputs of a band of a convolution, sorted by which of their taps lie inside the image: taps outside
// read zeros and need not be computed (conv2d_gather.cc says why that changes no bit).
#pragma once
#include <cstddef>
#include <vector>

#include "kernels/conv2d/conv2d_gather.h"

namespace butterfly::kernels {

// Steps of a sum that are neighbours: an output reads at `from` floats from its pointer; `step` is the first
// of them in the whole sum.
struct TapRun {
  ptrdiff_t from;
  size_t step;
};

// Some steps of the sums, for one visit to the outputs: runs of equal length.
struct TapPiece {
  std::vector<TapRun> runs;
  size_t run = 0;
};

// Neighbouring outputs of an axis which have the same taps inside the image.
struct AxisClass {
  TapRange taps, outputs;
};

// Outputs of one class of rows and one of columns.
struct TapClass {
  AxisClass h, w;
  bool whole = false;            // all taps lie inside
  std::vector<TapPiece> pieces;  // one at least, perhaps without runs
};

// All classes of a source, rows first. Pieces have `steps_max` steps at most.
std::vector<TapClass> tap_classes(const TapSource& source, size_t steps_max);

// Some rows of outputs, sorted.
struct Band {
  struct Group {
    const TapClass* kind;
    size_t begin, end;  // of the vectors below
  };
  std::vector<Group> groups;
  std::vector<const float*> from;  // by output: the first of its taps that lie inside
  std::vector<float*> to;          // its first channel in the target

  // Rows [row, stop), counted through the batch.
  void fill(const TapJob& job, const std::vector<TapClass>& classes, size_t row, size_t stop);
};

// The pixel that a tap of the output at `to` reads; null outside the image.
const float* tap_pixel(const TapJob& job, const float* to, size_t h_tap, size_t w_tap);

}  // namespace butterfly::kernels
