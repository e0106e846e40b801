// One step of an optimizer over an array of parameters: everything in one pass over memory.
//
// Element by element, so how the array is cut between threads or workers never shows. Exactly, with all
// factors rounded to float once before the loop (ref/optimizer_update.cc):
//
//   g = grad * grad_scale
//   adam     m = m + (1 - beta1) (g - m);  v = v + (1 - beta2) (g g - v)
//            p = p (1 - lr decay);  p = p - m (lr / c1) / (sqrt(v) / sqrt(c2) + eps),  ci = 1 - betai^step
//   sgd      g = g + decay p;  m = momentum m + g;  p = p - lr (nesterov ? g + momentum m : m)
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace butterfly::kernels {

// Settings of one step of Adam or AdamW.
struct AdamStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double decay = 0;       // weight decay
  bool decoupled = true;  // AdamW: decay shrinks p; false: Adam, decay * p joins the gradient
  uint64_t step = 1;      // counted from 1
  float grad_scale = 1;   // of clipping, and of means
};
// param, m, v [count] are updated; grad is read.
void adam_update(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count,
                 ThreadPool& pool);

// Settings of one step of SGD.
struct SgdStep {
  double lr = 1e-2, momentum = 0;
  double decay = 0;
  bool nesterov = false;
  bool first = false;  // no momentum yet: m = g
  float grad_scale = 1;
};
// m may be null without momentum.
void sgd_update(const SgdStep& step, const float* grad, float* param, float* m, size_t count,
                ThreadPool& pool);

// For the norm of all gradients: sums[i] = sum_squares() of the i-th block of kNormBlock floats. Whoever has
// all blocks adds them in double, in order.
inline constexpr size_t kNormBlock = size_t{1} << 16;
void sum_squares_blocks(const float* a, size_t count, float* sums, ThreadPool& pool);

// sum += a, as the tree over micro-batches needs it.
void add_to(const float* a, float* sum, size_t count, ThreadPool& pool);

namespace ref {
void adam_update(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count);
void sgd_update(const SgdStep& step, const float* grad, float* param, float* m, size_t count);
void sum_squares_blocks(const float* a, size_t count, float* sums);
}  // namespace ref

}  // namespace butterfly::kernels
