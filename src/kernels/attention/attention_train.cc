// Threads take whole key/value heads of a sequence: their sums over the queries stay in order.
#include "kernels/attention/attention_train.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation_backward.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/softmax.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

// Memory of a thread, kept between calls.
struct Scratch {
  Buffer pages, attend;
  std::vector<uint32_t> page_ids;
  std::vector<float> q, p, dp;

  static std::byte* bytes(Buffer& buffer, size_t size) {
    if (buffer.size() < size) buffer = Buffer::allocate(size);
    return buffer.data();
  }
};

// The rows of one head of one sequence.
template <class Rows>
Rows of_head(Rows rows, const AttentionShape& s, size_t sequence, size_t head) {
  rows.data += sequence * s.tokens * rows.row_stride + head * s.dim;
  return rows;
}

// All query heads of one key/value head.
void forward_head(const AttentionShape& s, size_t sequence, size_t kv_head, AttentionRows q, AttentionRows k,
                  AttentionRows v, AttentionRowsOut out) {
  thread_local Scratch scratch;
  const KvLayout layout{DType::kF32, s.dim};
  const size_t page_count = (s.tokens + kKvPage - 1) / kKvPage;
  std::byte* pages = Scratch::bytes(scratch.pages, page_count * layout.page_bytes());
  std::byte* room = Scratch::bytes(scratch.attend, attention_scratch_bytes(layout));
  for (size_t i = scratch.page_ids.size(); i < page_count; ++i)
    scratch.page_ids.push_back(static_cast<uint32_t>(i));
  const AttentionRows keys = of_head(k, s, sequence, kv_head), values = of_head(v, s, sequence, kv_head);
  for (size_t t = 0; t < s.tokens; ++t)
    kv_store(layout, pages + t / kKvPage * layout.page_bytes(), t % kKvPage, keys.data + t * keys.row_stride,
             values.data + t * values.row_stride);
  const size_t group = s.heads / s.kv_heads;
  for (size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const AttentionRows from = of_head(q, s, sequence, head);
    const AttentionRowsOut to = of_head(out, s, sequence, head);
    for (size_t t = 0; t < s.tokens; t += kQueriesMax) {
      AttentionQuery queries[kQueriesMax];
      const size_t count = std::min(kQueriesMax, s.tokens - t);
      for (size_t i = 0; i < count; ++i)
        queries[i] = {from.data + (t + i) * from.row_stride, to.data + (t + i) * to.row_stride, t + i};
      attend(layout, {.scale = s.scale}, {pages, layout.page_bytes(), scratch.page_ids.data()}, queries,
             count, room);
    }
  }
}

// One query head of one sequence; dk and dv go on from what they hold.
struct HeadGradient {
  size_t tokens, dim;
  float scale;
  AttentionRows q, k, v, dout;
  AttentionRowsOut dq, dk, dv;

  // c [m, n] (+)= op(a) op(b), with n = dim or the keys seen so far.
  static void product(size_t m, size_t n, size_t depth, GemmOperand a, GemmOperand b, float* c,
                      size_t c_stride, bool accumulate) {
    gemm(
        {.m = m, .n = n, .k = depth, .a = a, .b = b, .c = c, .c_stride = c_stride, .accumulate = accumulate});
  }

  void run(Scratch& scratch) const {
    scratch.q.resize(kQueryBlock * dim);
    scratch.p.resize(kQueryBlock * tokens);
    scratch.dp.resize(kQueryBlock * tokens);
    for (size_t begin = 0; begin < tokens; begin += kQueryBlock)
      block(begin, std::min(tokens, begin + kQueryBlock), scratch.q.data(), scratch.p.data(),
            scratch.dp.data());
  }

  // Queries [begin, end); the keys they see are [0, end).
  void block(size_t begin, size_t end, float* scaled, float* p, float* dp) const {
    const size_t rows = end - begin;
    for (size_t i = 0; i < rows; ++i)
      butterfly::kernels::scale(q.data + (begin + i) * q.row_stride, scale, scaled + i * dim, dim);
    const GemmOperand keys{k.data, k.row_stride}, d_out{dout.data + begin * dout.row_stride, dout.row_stride};
    product(rows, end, dim, {scaled, dim}, {k.data, k.row_stride, true}, p, end, false);
    product(rows, end, dim, d_out, {v.data, v.row_stride, true}, dp, end, false);
    for (size_t i = 0; i < rows; ++i) {
      const size_t seen = begin + i + 1;
      softmax(p + i * end, seen);
      softmax_backward(p + i * end, dp + i * end, dp + i * end, seen);
      std::fill(p + i * end + seen, p + (i + 1) * end, 0.0f);
      std::fill(dp + i * end + seen, dp + (i + 1) * end, 0.0f);
    }
    float* to = dq.data + begin * dq.row_stride;
    product(rows, dim, end, {dp, end}, keys, to, dq.row_stride, false);
    for (size_t i = 0; i < rows; ++i)
      butterfly::kernels::scale(to + i * dq.row_stride, scale, to + i * dq.row_stride, dim);
    product(end, dim, rows, {dp, end, true}, {scaled, dim}, dk.data, dk.row_stride, true);
    product(end, dim, rows, {p, end, true}, d_out, dv.data, dv.row_stride, true);
  }
};

}  // namespace

void attention_forward(const AttentionShape& s, AttentionRows q, AttentionRows k, AttentionRows v,
                       AttentionRowsOut out, ThreadPool& pool) {
  pool.parallel_for(s.batch * s.kv_heads, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) forward_head(s, i / s.kv_heads, i % s.kv_heads, q, k, v, out);
  });
}

void attention_backward(const AttentionShape& s, AttentionRows q, AttentionRows k, AttentionRows v,
                        AttentionRows dout, AttentionRowsOut dq, AttentionRowsOut dk, AttentionRowsOut dv,
                        ThreadPool& pool) {
  const size_t group = s.kv_heads == 0 ? 0 : s.heads / s.kv_heads;
  pool.parallel_for(s.batch * s.kv_heads, 1, [&](size_t begin, size_t end) {
    thread_local Scratch scratch;
    for (size_t i = begin; i < end; ++i) {
      const size_t b = i / s.kv_heads, kv = i % s.kv_heads;
      const AttentionRowsOut keys = of_head(dk, s, b, kv), values = of_head(dv, s, b, kv);
      for (size_t t = 0; t < s.tokens; ++t) {
        std::fill_n(keys.data + t * keys.row_stride, s.dim, 0.0f);
        std::fill_n(values.data + t * values.row_stride, s.dim, 0.0f);
      }
      for (size_t head = kv * group; head < (kv + 1) * group; ++head)
        HeadGradient{s.tokens,
                     s.dim,
                     s.scale,
                     of_head(q, s, b, head),
                     of_head(k, s, b, kv),
                     of_head(v, s, b, kv),
                     of_head(dout, s, b, head),
                     of_head(dq, s, b, head),
                     keys,
                     values}
            .run(scratch);
    }
  });
}

}  // namespace butterfly::kernels
