// What every form of attention shares: which keys a query sees, and the running softmax of one query.
#pragma once
#include <cstddef>
#include <limits>

#include "kernels/attention/attention.h"

namespace butterfly::kernels {

// Keys [begin, end) of a page that are visible.
struct KeyRange {
  size_t begin, end;
  bool empty() const { return begin >= end; }
  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};
// Pages [begin, end) that hold such keys.
struct BlockRange {
  size_t begin, end;
};

inline size_t first_visible(const AttentionParams& params, size_t position) {
  return params.window == 0 || position + 1 <= params.window ? 0 : position + 1 - params.window;
}

inline KeyRange visible_keys(const AttentionParams& params, size_t position, size_t block) {
  const size_t start = block * kKvPage;
  const size_t first = first_visible(params, position);
  if (position < start || first >= start + kKvPage) return {0, 0};
  return {first > start ? first - start : 0,
          position + 1 >= start + kKvPage ? kKvPage : position + 1 - start};
}

// Pages that any of the queries sees.
BlockRange visible_blocks(const AttentionParams& params, const AttentionQuery* queries, size_t count);

// One query on its way through the pages.
struct AttentionState {
  float* q;       // scaled query, padded with zeros
  float* o;       // sum of values so far
  std::byte* q8;  // quantised query, for Q8_0 caches
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;

  // A page's largest score and sum of weights join; `factor` is what earlier sums shrink by: exp(max -
  // new_max).
  void advance(float new_max, float factor, float page_sum);
};

void begin_attention(const KvLayout& layout, const AttentionParams& params, const AttentionQuery* queries,
                     size_t count, std::byte* scratch, AttentionState* states);
void finish_attention(const KvLayout& layout, const AttentionQuery* queries, size_t count,
                      const AttentionState* states);

// A page, and how far from it the page lies that is read after it (0: there is none). Whoever reads a place
// prefetches the same place of the next page: pages lie apart, so the processor cannot guess, and the work on
// one is too long for it to look beyond. All at once would not do: it waits once its few line fill buffers
// are taken.
struct Page {
  const std::byte* data;
  ptrdiff_t next;
  // Always inlined: to GCC a function that only prefetches does nothing, and calls of it go.
  template <class T>
  [[gnu::always_inline]] void prefetch_next(const T* here) const {
    __builtin_prefetch(reinterpret_cast<const std::byte*>(here) + next);
  }
};

// One page joins the sums of `count` queries that see the same keys of it; there is at least one such key.
// `wide` has room for a page of floats.
using JoinPage = void (*)(const KvLayout& layout, const AttentionParams& params, Page page,
                          AttentionState* states, size_t count, KeyRange keys, std::byte* wide);

// All of attend(), with the pages joined by `join`.
void walk_pages(JoinPage join, const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
                const AttentionQuery* queries, size_t count, std::byte* scratch);

}  // namespace butterfly::kernels
