// Attention as plain loops: one query, one key, one value at a time.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_block.h"
#include "kernels/math/math.h"
#include "kernels/panels/pack_table.h"
#include "kernels/simd/half.h"
#include "kernels/simd/lanes.h"
#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/add_block.h"
#include "kernels/tiles/matmul_job.h"

namespace butterfly::kernels::ref {
namespace {

float plain(DType dtype, const std::byte* values, size_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(values)[index];
  return f16_to_f32(reinterpret_cast<const uint16_t*>(values)[index]);
}

// Number k of key j of a latent page.
float latent(const KvLayout& layout, const std::byte* page, size_t j, size_t k) {
  const std::byte* keys = page + j / kPanelRows * layout.key_panel_bytes();
  if (layout.dtype != DType::kQ8_0) return plain(layout.dtype, keys, k * kPanelRows + j % kPanelRows);
  IntBlock block;
  q8_0_panels.unpack(keys, layout.head_dim, j % kPanelRows, k / 32, &block);
  return block.d * static_cast<float>(block.q[k % 32]);
}

float score(const KvLayout& layout, const std::byte* page, const AttentionState& state, size_t j) {
  const std::byte* keys = page + j / kPanelRows * layout.key_panel_bytes();
  float acc = 0;
  if (layout.latent) {
    for (size_t k = 0; k < layout.head_dim; ++k) acc = std::fma(state.q[k], latent(layout, page, j, k), acc);
    return acc;
  }
  if (layout.dtype != DType::kQ8_0) {
    for (size_t k = 0; k < layout.head_dim; ++k)
      acc = std::fma(state.q[k], plain(layout.dtype, keys, k * kPanelRows + j % kPanelRows), acc);
    return acc;
  }
  const auto* a = reinterpret_cast<const int8_t*>(state.q8);
  const auto* d =
      reinterpret_cast<const float*>(state.q8 + act_layout(ActKind::kQ8x32, layout.head_dim).scales_offset);
  for (size_t b = 0; b < layout.head_dim / 32; ++b) {
    IntBlock block;
    q8_0_panels.unpack(keys, layout.head_dim, j % kPanelRows, b, &block);
    int32_t sum = 0;
    for (size_t i = 0; i < 32; ++i) sum += block.q[i] * a[b * 32 + i];
    acc = add_block(acc, sum, 0, block, false, d[b]);
  }
  return acc;
}

// weight * value as one step of the chain.
float add_value(const KvLayout& layout, const std::byte* page, size_t j, size_t k, float weight, float acc) {
  if (layout.latent) return std::fma(weight, latent(layout, page, j, k), acc);
  const std::byte* values = page + layout.values_offset();
  const size_t index = j * layout.padded_values() + k;
  if (layout.dtype != DType::kQ8_0) return std::fma(weight, plain(layout.dtype, values, index), acc);
  const auto* scales = reinterpret_cast<const uint16_t*>(page + layout.value_scales_offset());
  const float scale = f16_to_f32(scales[j * (layout.values() / 32) + k / 32]);
  return std::fma(weight * scale, static_cast<float>(reinterpret_cast<const int8_t*>(values)[index]), acc);
}

}  // namespace

void attend(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
            const AttentionQuery* queries, size_t count, std::byte* scratch) {
  AttentionState states[kQueriesMax];
  begin_attention(layout, params, queries, count, scratch, states);
  for (size_t m = 0; m < count; ++m) {
    AttentionState& state = states[m];
    const BlockRange blocks = visible_blocks(params, queries + m, 1);
    for (size_t block = blocks.begin; block < blocks.end; ++block) {
      const std::byte* page = pages.page(block);
      const KeyRange keys = visible_keys(params, queries[m].position, block);
      float weights[kKvPage];
      std::fill(weights, weights + kKvPage, -std::numeric_limits<float>::infinity());
      float max = state.max;
      for (size_t j = keys.begin; j < keys.end; ++j) {
        weights[j] = score(layout, page, state, j);
        if (params.soft_cap > 0) weights[j] = params.soft_cap * tanh_f32(weights[j] / params.soft_cap);
        max = std::max(max, weights[j]);
      }
      for (float& weight : weights) weight = exp_f32(weight - max);
      float lanes[kLogicalLanes];
      static_assert(kLogicalLanes == kKvPage);
      std::copy(weights, weights + kKvPage, lanes);
      const float factor = exp_f32(state.max - max);
      state.advance(max, factor, reduce_lanes(lanes));
      for (size_t k = 0; k < layout.values(); ++k) {
        float acc = state.o[k] * factor;
        for (size_t j = keys.begin; j < keys.end; ++j) acc = add_value(layout, page, j, k, weights[j], acc);
        state.o[k] = acc;
      }
    }
  }
  finish_attention(layout, queries, count, states);
}

}  // namespace butterfly::kernels::ref
