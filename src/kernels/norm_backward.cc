#include "kernels/norm_backward.h"

namespace butterfly::kernels {

void layer_norm_backward(const NormGradient& job, ThreadPool&) { ref::layer_norm_backward(job); }
void rms_norm_backward(const NormGradient& job, ThreadPool&) { ref::rms_norm_backward(job); }
void column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out,
                 ThreadPool&) {
  ref::column_sums(x, rows, cols, stride, accumulate, out);
}
void batch_norm_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y,
                        ThreadPool&) {
  ref::batch_norm_forward(norm, x, mean, variance, y);
}
void batch_norm_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                      float* y, ThreadPool&) {
  ref::batch_norm_apply(norm, x, mean, variance, y);
}
void batch_norm_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                         const float* dy, float* dx, float* dweight, float* dbias, bool accumulate,
                         ThreadPool&) {
  ref::batch_norm_backward(norm, x, mean, variance, dy, dx, dweight, dbias, accumulate);
}

}  // namespace butterfly::kernels
