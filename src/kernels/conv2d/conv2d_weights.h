// The gradient to the weights of one group: sums over positions, see conv2d.h.
#pragma once
#include "kernels/conv2d/conv2d_taps.h"

namespace butterfly::kernels {

// The sums over positions of one group. Borrows its arrays for the call.
struct TapSums {
  size_t batch = 0;
  TapSource source;           // x as conv2d_forward reads it
  const float* dy = nullptr;  // the group's first output channel of position 0
  size_t dy_stride = 0;       // floats from position to position
  size_t outputs = 0;         // channels of the group
  float* dw = nullptr;        // [outputs][taps][channels]
  bool accumulate = false;
};

void sum_taps(const TapSums& job, ThreadPool& pool);

}  // namespace butterfly::kernels
