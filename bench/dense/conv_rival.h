// oneDNN's convolutions in the layouts it likes best, where it was found when this was built.
#pragma once
#include <memory>

#include "kernels/conv2d/conv2d.h"

namespace butterfly::bench {

class ConvRival {
 public:
  virtual ~ConvRival() = default;
  virtual void forward() = 0;
  virtual void backward_data() = 0;
  virtual void backward_weights() = 0;
};

// Null without oneDNN. Data are its own; layouts are made outside of what is timed.
std::unique_ptr<ConvRival> onednn_conv(const kernels::Conv2d& conv);

}  // namespace butterfly::bench
