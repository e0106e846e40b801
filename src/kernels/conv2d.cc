#include "kernels/conv2d.h"

namespace butterfly::kernels {

void conv2d_forward(const Conv2d& conv, const float* x, const float* w, const Epilogue& epilogue, float* y,
                    ThreadPool&) {
  ref::conv2d_forward(conv, x, w, epilogue, y);
}
void conv2d_backward_data(const Conv2d& conv, const float* dy, const float* w, float* dx, ThreadPool&) {
  ref::conv2d_backward_data(conv, dy, w, dx);
}
void conv2d_backward_weights(const Conv2d& conv, const float* x, const float* dy, bool accumulate, float* dw,
                             float* dbias, ThreadPool&) {
  ref::conv2d_backward_weights(conv, x, dy, accumulate, dw, dbias);
}

}  // namespace butterfly::kernels
