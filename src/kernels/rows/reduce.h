// One value from a float array. Sums use the logical lanes of lanes.h, so their bits do not depend on the
// machine.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

float dot(const float* a, const float* b, size_t count);
float sum(const float* a, size_t count);
float sum_squares(const float* a, size_t count);

// NaNs are passed over. Minus infinity when there is nothing else; never -0.
float max_value(const float* a, size_t count);
// Lowest index of the largest value; 0 when there is none (empty, or all NaN).
size_t argmax(const float* a, size_t count);

// The plain loops (ref/reduce.cc).
namespace ref {
float dot(const float* a, const float* b, size_t count);
float sum(const float* a, size_t count);
float sum_squares(const float* a, size_t count);
float max_value(const float* a, size_t count);
size_t argmax(const float* a, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
