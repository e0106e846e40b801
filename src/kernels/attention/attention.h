// Attention of queries over the pages of one KV head. What a query computes, exactly:
//
//   m = -infinity, l = 0; with a sink m = sink, l = 1
//   for each page from the one that holds its first visible position, in order:
//     s[j] = chain of FMAs of (q * scale) with key j (integer products for Q8_0), soft-capped if wanted
//     m' = max(m, max s), p[j] = exp(s[j] - m'), c = exp(m - m')
//     l = fma(l, c, tree sum of p),  o = o * c, then o = fma(p[j], v[j], o) for j in order
//   out = o * (1 / l)
//
// Keys and values of a latent layout are the floats that its type stores, whatever the type.
//
// It depends on the query, its position and the cache alone: not on which other queries share the call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/kv_page.h"

namespace butterfly::kernels {

// What is the same for all queries of a layer.
struct AttentionParams {
  float scale = 1;     // usually 1 / sqrt(head_dim)
  float soft_cap = 0;  // 0: none
  size_t window = 0;   // sliding window: the last `window` positions are visible; 0: all
};

// One query vector: [head_dim] at q, result [values()] to out. Sees positions 0 .. position of its sequence.
struct AttentionQuery {
  const float* q;
  float* out;
  size_t position;
  // Score of a key without a value that the query sees too (gpt-oss: one number per head); minus infinity:
  // none.
  float sink = -std::numeric_limits<float>::infinity();
};

// The pages of one sequence for one layer and KV head: page b is at base + page_ids[b] * stride.
struct KvPages {
  const std::byte* base;
  size_t stride;
  const uint32_t* page_ids;
  const std::byte* page(size_t block) const { return base + page_ids[block] * stride; }
};

inline constexpr size_t kQueriesMax = 64;  // per call

// Bytes of 64-byte aligned scratch that attend() needs.
size_t attention_scratch_bytes(const KvLayout& layout);

// Up to kQueriesMax queries over the same pages; the keys and values are read once for all of them.
void attend(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
            const AttentionQuery* queries, size_t count, std::byte* scratch);

namespace ref {
void attend(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
            const AttentionQuery* queries, size_t count, std::byte* scratch);
}

}  // namespace butterfly::kernels
