// For elementwise_bench: the loops anyone would write, compiled twice with different flags (see
// CMakeLists.txt).
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// Without vectorisation.
namespace scalar_loops {
void add(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
float dot(const float* a, const float* b, size_t count);
}  // namespace scalar_loops

// With all the compiler can do, reassociated sums included: faster, and another result on every machine.
namespace auto_loops {
void add(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
float dot(const float* a, const float* b, size_t count);
}  // namespace auto_loops

}  // namespace butterfly::kernels
