// The gradient to the data of a convolution with strides and few channels, as the first layer of an image
// network has.
#pragma once
#include "kernels/conv2d/conv2d.h"

namespace butterfly::kernels {

// Whether conv2d_data_by_cells() can do it.
bool has_cells(const Conv2d& conv);

// Computes dx and returns true; or returns false, and dx holds anything.
bool conv2d_data_by_cells(const Conv2d& conv, const float* dy, const float* w, float* dx, ThreadPool& pool);

}  // namespace butterfly::kernels
