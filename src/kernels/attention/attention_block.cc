#include "kernels/attention/attention_block.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "kernels/math/math.h"
#include "kernels/tiles/activation_rows.h"

namespace butterfly::kernels {
namespace {

size_t floats_bytes(const KvLayout& layout) { return round_up(layout.padded_dim() * sizeof(float), 64); }
size_t q8_bytes(const KvLayout& layout) {
  return layout.dtype == DType::kQ8_0 ? act_layout(ActKind::kQ8x32, layout.head_dim).row_bytes : 0;
}

size_t wide_page_bytes(const KvLayout& layout) { return layout.wide().page_bytes(); }

}  // namespace

size_t attention_scratch_bytes(const KvLayout& layout) {
  return kQueriesMax * (2 * floats_bytes(layout) + q8_bytes(layout)) + wide_page_bytes(layout);
}

BlockRange visible_blocks(const AttentionParams& params, const AttentionQuery* queries, size_t count) {
  BlockRange range{std::numeric_limits<size_t>::max(), 0};
  for (size_t m = 0; m < count; ++m) {
    range.begin = std::min(range.begin, first_visible(params, queries[m].position) / kKvPage);
    range.end = std::max(range.end, queries[m].position / kKvPage + 1);
  }
  return range;
}

void AttentionState::advance(float new_max, float factor, float page_sum) {
  max = new_max;
  sum = std::fma(sum, factor, page_sum);
}

void begin_attention(const KvLayout& layout, const AttentionParams& params, const AttentionQuery* queries,
                     size_t count, std::byte* scratch, AttentionState* states) {
  for (size_t m = 0; m < count; ++m) {
    AttentionState& state = states[m];
    state = AttentionState{};
    state.max = queries[m].sink;
    state.sum = queries[m].sink == AttentionState{}.max ? 0.0f : 1.0f;
    state.q = reinterpret_cast<float*>(scratch);
    state.o = reinterpret_cast<float*>(scratch + floats_bytes(layout));
    state.q8 = scratch + 2 * floats_bytes(layout);
    scratch += 2 * floats_bytes(layout) + q8_bytes(layout);
    for (size_t i = 0; i < layout.padded_dim(); ++i) {
      state.q[i] = i < layout.head_dim ? queries[m].q[i] * params.scale : 0.0f;
      state.o[i] = 0;
    }
    if (layout.dtype == DType::kQ8_0)
      quantize_activation(ActKind::kQ8x32, state.q, layout.head_dim, state.q8);
  }
}

void finish_attention(const KvLayout& layout, const AttentionQuery* queries, size_t count,
                      const AttentionState* states) {
  for (size_t m = 0; m < count; ++m) {
    const float inverse = 1.0f / states[m].sum;
    for (size_t i = 0; i < layout.values(); ++i) queries[m].out[i] = states[m].o[i] * inverse;
  }
}

void walk_pages(JoinPage join, const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
                const AttentionQuery* queries, size_t count, std::byte* scratch) {
  AttentionState states[kQueriesMax];
  begin_attention(layout, params, queries, count, scratch, states);
  const BlockRange blocks = visible_blocks(params, queries, count);
  std::byte* wide = scratch + attention_scratch_bytes(layout) - wide_page_bytes(layout);
  for (size_t block = blocks.begin; block < blocks.end; ++block) {
    Page page{pages.page(block), 0};
    if (block + 1 < blocks.end) page.next = pages.page(block + 1) - page.data;
    // Neighbours that see the same keys go together.
    for (size_t m = 0; m < count;) {
      const KeyRange keys = visible_keys(params, queries[m].position, block);
      size_t end = m + 1;
      while (end < count && visible_keys(params, queries[end].position, block) == keys) ++end;
      if (!keys.empty()) {
        join(layout, params, page, states + m, end - m, keys, wide);
        page.next = 0;  // prefetched
      }
      m = end;
    }
  }
  finish_attention(layout, queries, count, states);
}

}  // namespace butterfly::kernels
