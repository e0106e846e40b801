#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace butterfly::kernels::ref {

void add(const float* a, const float* b, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}
void sub(const float* a, const float* b, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] - b[i];
}
void mul(const float* a, const float* b, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
}
void scale(const float* a, float factor, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] * factor;
}
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = std::fma(b[i], factor, a[i]);
}

}  // namespace butterfly::kernels::ref
