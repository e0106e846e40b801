// Cross-entropy of rows of logits, and its gradient in the same memory.
//
// Exactly, for a row with target t: top = max, p[i] = exp(logit[i] - top), total = lane sum of p,
// loss = log(total) - (logit[t] - top); the gradient is p[i] * (grad / total), minus grad at t.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace butterfly::kernels {

inline constexpr int32_t kIgnoredTarget = -100;  // as in other frameworks; any negative target is ignored

// logits is [rows, vocab], targets [rows], losses [rows]. Ignored rows: loss 0, gradient 0. `grad` is the
// factor of every row's gradient, usually 1 / (number of targets that count). A head works through its rows
// in chunks and calls this for each, so that logits of all rows are never there at once.
void cross_entropy_backward(float* logits, size_t rows, size_t vocab, const int32_t* targets, float grad,
                            float* losses, ThreadPool& pool);
// Losses alone; the logits stay.
void cross_entropy(const float* logits, size_t rows, size_t vocab, const int32_t* targets, float* losses,
                   ThreadPool& pool);

namespace ref {
void cross_entropy_backward(float* logits, size_t rows, size_t vocab, const int32_t* targets, float grad,
                            float* losses);
void cross_entropy(const float* logits, size_t rows, size_t vocab, const int32_t* targets, float* losses);
}  // namespace ref

}  // namespace butterfly::kernels
