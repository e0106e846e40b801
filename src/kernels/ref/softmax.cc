#include <limits>

#include "kernels/math/math.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/softmax.h"

namespace butterfly::kernels::ref {

void softmax(float* row, size_t count) {
  const float largest = max_value(row, count);
  const float shift = largest == -std::numeric_limits<float>::infinity() ? 0.0f : largest;
  for (size_t i = 0; i < count; ++i) row[i] = exp_f32(row[i] - shift);
  const float total = sum(row, count);
  if (total == 0.0f) return;
  const float factor = 1.0f / total;
  for (size_t i = 0; i < count; ++i) row[i] *= factor;
}

void soft_cap(float* x, float cap, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = soft_cap_f32(x[i], cap);
}

}  // namespace butterfly::kernels::ref
