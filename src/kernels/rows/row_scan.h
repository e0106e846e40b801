// Passes over a long row of floats: the largest of each block, what lies between two values, what a mask
// allows.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

// maxima[b] = the largest of the b-th `block` values; the last block may be shorter. NaNs are passed over: a
// block of nothing else has -infinity. Returns whether there was no NaN.
bool block_maxima(const float* row, size_t count, size_t block, float* maxima);

// Those with least <= row[i] < below, in order: the values, and first + i. Returns how many. Both outputs
// need room for `count`.
size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices);

// out[i] = row[i] where bit i % 64 of word i / 64 is 1, else -infinity.
void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out);

// The plain loops (ref/row_scan.cc).
namespace ref {
bool block_maxima(const float* row, size_t count, size_t block, float* maxima);
size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices);
void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out);
}  // namespace ref

}  // namespace butterfly::kernels
