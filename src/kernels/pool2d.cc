#include "kernels/pool2d.h"

namespace butterfly::kernels {

void max_pool2d_forward(const Pool2d& p, const float* x, float* y, uint16_t* taps, ThreadPool&) {
  ref::max_pool2d_forward(p, x, y, taps);
}
void max_pool2d_backward(const Pool2d& p, const float* dy, const uint16_t* taps, float* dx, ThreadPool&) {
  ref::max_pool2d_backward(p, dy, taps, dx);
}
void avg_pool2d_forward(const Pool2d& p, const float* x, float* y, ThreadPool&) {
  ref::avg_pool2d_forward(p, x, y);
}
void avg_pool2d_backward(const Pool2d& p, const float* dy, float* dx, ThreadPool&) {
  ref::avg_pool2d_backward(p, dy, dx);
}

}  // namespace butterfly::kernels
