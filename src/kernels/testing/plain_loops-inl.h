// Bodies of plain_loops.h. The including file sets BF_PLAIN_NAMESPACE.
#include "kernels/testing/plain_loops.h"

namespace butterfly::kernels::BF_PLAIN_NAMESPACE {

void add(const float* a, const float* b, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}
void scale(const float* a, float factor, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] * factor;
}
float dot(const float* a, const float* b, size_t count) {
  float sum = 0;
  for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace butterfly::kernels::BF_PLAIN_NAMESPACE
