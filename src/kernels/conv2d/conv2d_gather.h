// Outputs that gather taps, times packed weights: the inside of conv2d_forward and conv2d_backward_data.
#pragma once
#include <atomic>

#include "kernels/conv2d/conv2d_taps.h"

namespace butterfly::kernels {

// The weights of a job, as a matrix [taps of h, taps of w, channels][outputs]: in memory
// w[output * output_stride + (ky * kernel_w + kx) * tap_stride + channel * channel_stride].
struct TapWeights {
  const float* data = nullptr;
  size_t outputs = 0;
  size_t output_stride = 0, tap_stride = 0, channel_stride = 0;
  size_t kernel_w = 1;
};

// Where results go: pixel (row0 + i * row_step, column0 + j * column_step) of NHWC images.
struct TapTarget {
  float* images = nullptr;
  size_t height = 0, width = 0, channels = 0, first_channel = 0;
  size_t row0 = 0, row_step = 1, column0 = 0, column_step = 1;
  // Pixels that become zeros beside each output: floats from its own pixel.
  std::vector<ptrdiff_t> clear = {};
  // Outputs go in parts of so many channels to this many rows of the images, one below the other.
  size_t parts = 1;
};

// One group of a convolution, forward or to the data. Borrows its arrays for the call.
struct TapJob {
  size_t batch = 0;
  TapSource source;
  TapWeights weights;
  TapTarget target;
  Epilogue epilogue = {};  // bias by the target's channel
  // Where given: set if any result is zero or not finite.
  std::atomic<bool>* doubt = nullptr;
};

void gather_taps(const TapJob& job, ThreadPool& pool);

}  // namespace butterfly::kernels
