// Sums, products and multiples of float arrays, element by element.
//
// Any size and alignment. `out` may be one of the inputs, but must not overlap one otherwise. No threads
// inside: the caller splits, and the cut changes nothing. Results from kStreamBytes on bypass the caches.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// A result of this size is stored past the caches: it would push out everything else, and a plain store reads
// the line from memory first. Smaller ones stay in a cache for whoever reads them next.
inline constexpr size_t kStreamBytes = size_t{32} << 20;

void add(const float* a, const float* b, float* out, size_t count);
void sub(const float* a, const float* b, float* out, size_t count);
void mul(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
// out = a + factor * b, rounded once.
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count);

// The plain loops (ref/elementwise.cc).
namespace ref {
void add(const float* a, const float* b, float* out, size_t count);
void sub(const float* a, const float* b, float* out, size_t count);
void mul(const float* a, const float* b, float* out, size_t count);
void scale(const float* a, float factor, float* out, size_t count);
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
