// Gradients of layer_norm and rms_norm, and batch normalisation for training, over whole matrices.
//
// Sums along a row use the logical lanes; sums down a column (weights, biases, batch statistics) go row by
// row in blocks of kPositionBlock rows (position_block.h): a chain from 0 per block, then total = total +
// block. Exactly: ref/norm_backward.cc and ref/batch_norm.cc.
#pragma once
#include <cstddef>

#include "base/thread_pool.h"

namespace butterfly::kernels {

// One gradient of a norm. Borrows its arrays for the call.
struct NormGradient {
  size_t rows = 0, cols = 0;
  size_t stride = 0;  // floats from row to row of x, dy and dx; 0: cols
  float eps = 0;
  const float* x = nullptr;       // [rows, cols], what the norm saw
  const float* weight = nullptr;  // [cols] or null
  const float* dy = nullptr;      // [rows, cols]
  float* dx = nullptr;            // [rows, cols]; may be dy. Null: not wanted
  float* dweight = nullptr;       // [cols] or null
  float* dbias = nullptr;         // [cols] or null
  bool accumulate = false;        // dweight and dbias start from what they hold; else from 0

  size_t row_begin(size_t row) const { return row * (stride == 0 ? cols : stride); }
};

// The statistics are computed again from x: nothing needs to be kept by the forward pass.
void layer_norm_backward(const NormGradient& job, ThreadPool& pool);
void rms_norm_backward(const NormGradient& job, ThreadPool& pool);

// out[j] (+)= sum over the rows of x[i][j]: the gradient of a bias.
void column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out,
                 ThreadPool& pool);

// Batch normalisation of a matrix [rows, channels]: NHWC images with rows = batch * height * width.
struct BatchNorm {
  size_t rows = 0, channels = 0;
  float eps = 0;
  const float* weight = nullptr;  // [channels] or null
  const float* bias = nullptr;    // [channels] or null
};

// Training: mean and variance (divided by rows) of this batch go to mean, variance [channels]; then
// y = (x - mean) * (weight / sqrt(variance + eps)) + bias, the last step rounded once. y may be x.
void batch_norm_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y,
                        ThreadPool& pool);
// Inference: with given statistics.
void batch_norm_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                      float* y, ThreadPool& pool);
// Through the batch statistics. x is the input of the forward pass; dx may be dy. dweight, dbias as above, or
// null.
void batch_norm_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                         const float* dy, float* dx, float* dweight, float* dbias, bool accumulate,
                         ThreadPool& pool);

namespace ref {
void layer_norm_backward(const NormGradient& job);
void rms_norm_backward(const NormGradient& job);
void column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out);
void batch_norm_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y);
void batch_norm_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                      float* y);
void batch_norm_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                         const float* dy, float* dx, float* dweight, float* dbias, bool accumulate);
}  // namespace ref

}  // namespace butterfly::kernels
