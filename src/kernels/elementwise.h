// Sums, products and multiples of float arrays, element by element.
//
// Any size and alignment. `out` may be one of the inputs, but must not overlap one otherwise. No threads
// inside: the caller splits, and the cut changes nothing. Results above 32 MiB bypass the caches.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

void add(const float* a, const float* b, float* out, size_t count);
void sub(const float* a, const float* b, float* out, size_t count);
void mul(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
// out = a + factor * b, rounded once.
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count);

}  // namespace butterfly::kernels
