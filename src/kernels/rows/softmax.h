// Softmax of a row, and the soft cap that some models put on scores before it.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// row[i] = exp(row[i] - max) / sum, in place, as a product with the rounded 1 / sum.
//
// -infinity marks what is masked: 0. A row of nothing else becomes all 0. A NaN or +infinity makes the whole
// row NaN.
void softmax(float* row, size_t count);

// x[i] = cap * tanh(x[i] / cap), in place.
void soft_cap(float* x, float cap, size_t count);

// The plain loops (ref/softmax.cc).
namespace ref {
void softmax(float* row, size_t count);
void soft_cap(float* x, float cap, size_t count);
}  // namespace ref

}  // namespace butterfly::kernels
