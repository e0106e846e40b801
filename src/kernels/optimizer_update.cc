#include "kernels/optimizer_update.h"

#include "kernels/elementwise.h"

namespace butterfly::kernels {

void adam_update(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count,
                 ThreadPool&) {
  ref::adam_update(step, grad, param, m, v, count);
}
void sgd_update(const SgdStep& step, const float* grad, float* param, float* m, size_t count, ThreadPool&) {
  ref::sgd_update(step, grad, param, m, count);
}
double sum_squares_blocks(const float* a, size_t count, ThreadPool&) {
  return ref::sum_squares_blocks(a, count);
}
void add_to(const float* a, float* sum, size_t count, ThreadPool&) { add(a, sum, sum, count); }

}  // namespace butterfly::kernels
