#include <cmath>
#include <limits>

#include "kernels/rows/reduce.h"
#include "kernels/simd/lanes.h"

namespace butterfly::kernels::ref {

float dot(const float* a, const float* b, size_t count) {
  float lanes[kLogicalLanes] = {};
  for (size_t i = 0; i < count; ++i) {
    float& lane = lanes[i % kLogicalLanes];
    lane = std::fma(a[i], b[i], lane);
  }
  return reduce_lanes(lanes);
}

float sum(const float* a, size_t count) {
  float lanes[kLogicalLanes] = {};
  for (size_t i = 0; i < count; ++i) lanes[i % kLogicalLanes] += a[i];
  return reduce_lanes(lanes);
}

float sum_squares(const float* a, size_t count) { return dot(a, a, count); }

float max_value(const float* a, size_t count) {
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) largest = a[i] > largest ? a[i] : largest;
  return largest + 0.0f;  // -0 becomes +0
}

size_t argmax(const float* a, size_t count) {
  const float largest = max_value(a, count);
  for (size_t i = 0; i < count; ++i)
    if (a[i] == largest) return i;
  return 0;
}

}  // namespace butterfly::kernels::ref
