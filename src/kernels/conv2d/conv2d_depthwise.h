// Convolution with one channel per group: channels are lanes, every tap is one FMA. See conv2d.h.
#pragma once
#include "kernels/conv2d/conv2d.h"

namespace butterfly::kernels {

void depthwise_forward(const Conv2d& c, const float* x, const float* w, const Epilogue& epilogue, float* y,
                       ThreadPool& pool);
void depthwise_backward_data(const Conv2d& c, const float* dy, const float* w, float* dx, ThreadPool& pool);
void depthwise_backward_weights(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                                ThreadPool& pool);

}  // namespace butterfly::kernels
