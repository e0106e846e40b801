// A convolution as outputs that gather taps from a source image, one axis at a time. Forward gathers from x;
// the gradient to the data gathers from dy, separately for each place within a stride.
#pragma once
#include <cstddef>
#include <vector>

#include "kernels/conv2d/conv2d.h"

namespace butterfly::kernels {

// Some neighbours among the taps of an axis.
struct TapRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

// Output j of an axis reads the source at j * step + taps[t]; outside [0, source) there are zeros.
struct TapAxis {
  size_t outputs = 0;
  size_t step = 1;
  size_t source = 0;
  std::vector<ptrdiff_t> taps;  // in the order of the sum
  std::vector<size_t> kernel;   // which tap of the kernel each one is

  ptrdiff_t lowest() const;
  ptrdiff_t highest() const;
  // Whether no output reads outside the source.
  bool inside() const;
  // The taps of one output that read inside the source. (Taps ascend or descend: they are neighbours.)
  TapRange inside(size_t output) const;
  // Whether each tap is the right neighbour of the one before.
  bool ascending() const;
  // Source places between the lowest and the highest that `count` outputs read.
  size_t reach(size_t count) const;
};

TapAxis forward_axis(size_t outputs, size_t source, size_t kernel, size_t stride, size_t pad,
                     size_t dilation);
// Inputs phase, phase + stride, ... of an axis with `inputs` places; `source` are the places of dy.
TapAxis data_axis(size_t phase, size_t inputs, size_t source, size_t kernel, size_t stride, size_t pad,
                  size_t dilation);

// Some channels of NHWC images as a source.
struct TapSource {
  TapAxis h, w;
  const float* images = nullptr;
  size_t image_channels = 0;  // floats from pixel to pixel
  size_t first_channel = 0, channels = 0;

  // Where taps stand from the lowest one, and how many floats follow each: neighbouring taps are joined.
  struct Offsets {
    std::vector<ptrdiff_t> at;
    size_t run = 0;
  };
  // Without zeros to add the images are read where they are.
  bool direct() const { return h.inside() && w.inside(); }
  size_t pixel_stride() const { return direct() ? image_channels : channels; }
  size_t row_stride() const { return direct() ? w.source * image_channels : w.reach(w.outputs) * channels; }
  Offsets offsets() const;
  // Floats of a copy for `rows` rows of outputs of one image; 0 if direct.
  size_t copy_floats(size_t rows) const { return direct() ? 0 : h.reach(rows) * row_stride(); }
  // The lowest tap of output (row, 0) of an image. Copies what outputs [row, row + rows) read into `copy`.
  const float* window(size_t image, size_t row, size_t rows, float* copy) const;
};

}  // namespace butterfly::kernels
