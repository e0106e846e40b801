// Causal attention over whole sequences, forward and backward, without a [T, T] matrix in memory.
//
// Forward has the bits of attention.h's attend() over an F32 cache: training and generation agree. Backward
// works through blocks of kQueryBlock queries, with the scores of one block at a time; exactly, for the
// block's queries t and all keys j up to the block's last query (p = 0 where j > t, and these zeros take
// part):
//
//   s = chain over dim of (q * scale) with k;  p = softmax(s[0 .. t])     (softmax.h)
//   dp = chain over dim of do with v;  ds = softmax_backward(p, dp)       (activation_backward.h)
//   dq = (chain over j of ds with k) * scale
//   dk = chain over (query head of the group, t) of ds with (q * scale), dv = the same of p with do; t in
//   order
#pragma once
#include <cstddef>

#include "base/thread_pool.h"

namespace butterfly::kernels {

inline constexpr size_t kQueryBlock = 32;

// Row (b, t, head) of a tensor stands at data + (b * tokens + t) * row_stride + head * dim: parts of one
// fused [batch, tokens, (q, k, v)] projection as well as tensors of their own.
struct AttentionShape {
  size_t batch = 0, tokens = 0;
  size_t heads = 0, kv_heads = 0;  // heads is a multiple of kv_heads
  size_t dim = 0;
  float scale = 1;  // usually 1 / sqrt(dim)
};
struct AttentionRows {
  const float* data = nullptr;
  size_t row_stride = 0;
};
struct AttentionRowsOut {
  float* data = nullptr;
  size_t row_stride = 0;
};

void attention_forward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                       AttentionRowsOut out, ThreadPool& pool);
// Overwrites dq, dk, dv; none may overlap an input.
void attention_backward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                        AttentionRows dout, AttentionRowsOut dq, AttentionRowsOut dk, AttentionRowsOut dv,
                        ThreadPool& pool);

namespace ref {
void attention_forward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                       AttentionRowsOut out);
void attention_backward(const AttentionShape& shape, AttentionRows q, AttentionRows k, AttentionRows v,
                        AttentionRows dout, AttentionRowsOut dq, AttentionRowsOut dk, AttentionRowsOut dv);
}  // namespace ref

}  // namespace butterfly::kernels
