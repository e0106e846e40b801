#include "kernels/attention/attention_train.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation_backward.h"
#include "kernels/rows/softmax.h"
#include "tensor/buffer.h"

namespace butterfly::kernels::ref {

void attention_forward(const AttentionShape& s, AttentionRows q, AttentionRows k, AttentionRows v,
                       AttentionRowsOut out) {
  const KvLayout layout{DType::kF32, s.dim};
  const size_t page_count = (s.tokens + kKvPage - 1) / kKvPage;
  const Buffer pages = Buffer::allocate(page_count * layout.page_bytes());
  const Buffer scratch = Buffer::allocate(attention_scratch_bytes(layout));
  std::vector<uint32_t> ids(page_count);
  for (uint32_t i = 0; i < page_count; ++i) ids[i] = i;
  for (size_t b = 0; b < s.batch; ++b)
    for (size_t head = 0; head < s.heads; ++head) {
      const size_t kv_head = head / (s.heads / s.kv_heads);
      for (size_t t = 0; t < s.tokens; ++t) {
        const size_t row = b * s.tokens + t;
        kv_store(layout, pages.data() + t / kKvPage * layout.page_bytes(), t % kKvPage,
                 k.data + row * k.row_stride + kv_head * s.dim,
                 v.data + row * v.row_stride + kv_head * s.dim);
      }
      for (size_t t = 0; t < s.tokens; ++t) {
        const size_t row = b * s.tokens + t;
        const AttentionQuery query{q.data + row * q.row_stride + head * s.dim,
                                   out.data + row * out.row_stride + head * s.dim, t};
        ref::attend(layout, {.scale = s.scale}, {pages.data(), layout.page_bytes(), ids.data()}, &query, 1,
                    scratch.data());
      }
    }
}

namespace {

// One query head of one sequence. dk and dv go on from what they hold.
struct HeadGradient {
  size_t tokens, dim;
  float scale;
  AttentionRows q, k, v, dout;
  AttentionRowsOut dq, dk, dv;

  void run() const {
    std::vector<float> p(tokens), dp(tokens), ds(tokens);
    for (size_t t = 0; t < tokens; ++t) {
      const size_t end = std::min(tokens, (t / kQueryBlock + 1) * kQueryBlock);
      const float* qt = q.data + t * q.row_stride;
      const float* d_out = dout.data + t * dout.row_stride;
      for (size_t j = 0; j <= t; ++j) {
        p[j] = dp[j] = 0;
        for (size_t i = 0; i < dim; ++i) p[j] = std::fma(qt[i] * scale, k.data[j * k.row_stride + i], p[j]);
        for (size_t i = 0; i < dim; ++i) dp[j] = std::fma(d_out[i], v.data[j * v.row_stride + i], dp[j]);
      }
      softmax(p.data(), t + 1);
      softmax_backward(p.data(), dp.data(), ds.data(), t + 1);
      for (size_t j = t + 1; j < end; ++j) p[j] = ds[j] = 0;
      for (size_t i = 0; i < dim; ++i) {
        float acc = 0;
        for (size_t j = 0; j < end; ++j) acc = std::fma(ds[j], k.data[j * k.row_stride + i], acc);
        dq.data[t * dq.row_stride + i] = acc * scale;
      }
      for (size_t j = 0; j < end; ++j)
        for (size_t i = 0; i < dim; ++i) {
          float& key = dk.data[j * dk.row_stride + i];
          float& value = dv.data[j * dv.row_stride + i];
          key = std::fma(ds[j], qt[i] * scale, key);
          value = std::fma(p[j], d_out[i], value);
        }
    }
  }
};

}  // namespace

void attention_backward(const AttentionShape& s, AttentionRows q, AttentionRows k, AttentionRows v,
                        AttentionRows dout, AttentionRowsOut dq, AttentionRowsOut dk, AttentionRowsOut dv) {
  const size_t group = s.heads / s.kv_heads;
  for (size_t b = 0; b < s.batch; ++b)
    for (size_t kv = 0; kv < s.kv_heads; ++kv) {
      const auto at = [&](auto rows, size_t head) {
        rows.data += b * s.tokens * rows.row_stride + head * s.dim;
        return rows;
      };
      for (size_t t = 0; t < s.tokens; ++t) {
        std::fill_n(at(dk, kv).data + t * dk.row_stride, s.dim, 0.0f);
        std::fill_n(at(dv, kv).data + t * dv.row_stride, s.dim, 0.0f);
      }
      for (size_t head = kv * group; head < (kv + 1) * group; ++head)
        HeadGradient{s.tokens,  s.dim,          s.scale,      at(q, head), at(k, kv),
                     at(v, kv), at(dout, head), at(dq, head), at(dk, kv),  at(dv, kv)}
            .run();
    }
}

}  // namespace butterfly::kernels::ref
