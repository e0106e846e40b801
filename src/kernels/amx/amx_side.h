// What all tile products share: rows of activations as tiles load them, and where results go. Only for x86-64
// sources.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/amx/amx_tiles.h"
#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/matmul_job.h"
#include "kernels/tiles/panel_layout.h"
#include "tensor/buffer.h"

namespace butterfly::kernels::amx {

inline constexpr size_t kTileRows = 16;

// Activation rows in tiles of equal height. The last tile starts early enough to be full: it repeats rows of
// the one before, with the same bits.
struct RowTiles {
  size_t first;
  size_t rows;    // in all
  size_t height;  // of each tile
  size_t count;

  RowTiles(size_t first_row, size_t row_count) : first(first_row), rows(row_count) {
    count = (rows + kTileRows - 1) / kTileRows;
    height = (rows + count - 1) / count;
  }
  size_t start(size_t tile) const { return first + std::min(tile * height, rows - height); }
};

// The activations of a pass, tile by tile: quants as tiles load them, and what the vector units need, rows
// side by side.
struct ActSide {
  Buffer quants;                   // [tile][step][height][depth]
  std::vector<float> scales;       // [tile][block][kTileRows]
  std::vector<int32_t> sum_pairs;  // [tile][block][4][kTileRows]: two int16 sums of 32 values each

  void gather(const MatmulJob& job, ActKind kind, const RowTiles& tiles, size_t depth) {
    const size_t blocks = job.cols / act_block(kind), steps = job.cols / depth;
    const ActLayout layout = act_layout(kind, job.cols);
    const bool pairs = kind == ActKind::kQ8x256;
    const size_t tile_bytes = tiles.height * job.cols;
    if (quants.size() < tiles.count * tile_bytes) quants = Buffer::allocate(tiles.count * tile_bytes);
    scales.assign(tiles.count * blocks * kTileRows, 0.0f);
    if (pairs) sum_pairs.assign(tiles.count * blocks * 4 * kTileRows, 0);
    for (size_t tile = 0; tile < tiles.count; ++tile)
      for (size_t r = 0; r < tiles.height; ++r) {
        const std::byte* act = job.acts + (tiles.start(tile) + r) * job.act_stride;
        std::byte* to = quants.data() + tile * tile_bytes + r * depth;
        for (size_t step = 0; step < steps; ++step)
          std::memcpy(to + step * tiles.height * depth, act + step * depth, depth);
        const auto* d = reinterpret_cast<const float*>(act + layout.scales_offset);
        for (size_t b = 0; b < blocks; ++b) scales[(tile * blocks + b) * kTileRows + r] = d[b];
        if (!pairs) continue;
        const auto* sums = reinterpret_cast<const int16_t*>(act + layout.sums_offset);
        for (size_t i = 0; i < blocks * 4; ++i) {
          const int32_t low = sums[4 * i] + sums[4 * i + 1], high = sums[4 * i + 2] + sums[4 * i + 3];
          sum_pairs[(tile * blocks * 4 + i) * kTileRows + r] =
              static_cast<int32_t>(static_cast<uint32_t>(low) & 0xffffu) | (high << 16);
        }
      }
  }
};

// Where the results of one tile go; rows beyond the matrix (padding of the last panel) are dropped.
struct Output {
  float* y;
  size_t stride;
  __mmask16 valid;
  size_t subtree_stride;

  BF_AMX_INLINE void store(size_t row, __m512 v) const { _mm512_mask_storeu_ps(y + row * stride, valid, v); }
  Output subtree(size_t index) const { return {y + index * subtree_stride, stride, valid, subtree_stride}; }
};

// The tree over kCount sums, `step` floats from one to the next.
template <size_t kCount>
BF_AMX_INLINE __m512 shard_tree(const float* sums, size_t step) {
  if constexpr (kCount == 1) {
    return _mm512_load_ps(sums);
  } else {
    return _mm512_add_ps(shard_tree<kCount / 2>(sums, step),
                         shard_tree<kCount / 2>(sums + kCount / 2 * step, step));
  }
}
// The end of a tree: see kTreeNan.
BF_AMX_INLINE __m512 tree_result(__m512 sum) {
  const __mmask16 nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
  return _mm512_castsi512_ps(
      _mm512_mask_set1_epi32(_mm512_castps_si512(sum), nan, static_cast<int>(kTreeNan)));
}
template <size_t kCount>
BF_AMX_INLINE void store_tree(const float* sums, size_t step, const Output& out, size_t rows) {
  for (size_t r = 0; r < rows; ++r) {
    const __m512 sum = shard_tree<kCount>(sums + r * 16, step);
    out.store(r, kCount == 1 ? sum : tree_result(sum));
  }
}
// Sums of all shards of `cuts`, [shard][rows][16] with `step` floats from one shard to the next: the result
// of every subtree. Not inlined: it would take registers from the loop before it.
BF_AMX __attribute__((noinline)) inline void store_subtrees(const ShardCuts& cuts, const float* sums,
                                                            size_t step, const Output& out, size_t rows) {
  for (size_t i = 0; i < cuts.subtree_count; ++i) {
    const size_t count = cuts.shards[i];
    const Output to = out.subtree(i);
    if (count == 1) store_tree<1>(sums, step, to, rows);
    if (count == 2) store_tree<2>(sums, step, to, rows);
    if (count == 4) store_tree<4>(sums, step, to, rows);
    if (count == 8) store_tree<8>(sums, step, to, rows);
    sums += count * step;
  }
}

BF_AMX_INLINE __m512 load_halves(const uint16_t* from) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// Some rows of activations on their way past all panels. Borrowed by the calls it is given to.
struct Pass {
  const MatmulJob& job;
  const RowTiles& tiles;
  const ActSide& side;
  size_t blocks;

  const int8_t* acts(size_t tile) const {
    return reinterpret_cast<const int8_t*>(side.quants.data()) + tile * tiles.height * job.cols;
  }
  // The panel after this one, which is prefetched while this one is multiplied; behind the last one, itself.
  const std::byte* next_panel(size_t panel_index) const {
    return job.panels + std::min(panel_index + 1, job.panel_end - 1) * job.panel_bytes;
  }
  Output out(size_t tile, size_t panel_index) const {
    const size_t first = panel_index * kPanelRows, valid = std::min(kPanelRows, job.rows - first);
    return {job.y + tiles.start(tile) * job.y_stride + first, job.y_stride,
            static_cast<__mmask16>((1u << valid) - 1), job.subtree_stride};
  }
};

// Prefetches `bytes` of memory from `from` on.
BF_AMX_INLINE void prefetch(const std::byte* from, size_t bytes) {
  for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, 0, 2);
}

}  // namespace butterfly::kernels::amx
