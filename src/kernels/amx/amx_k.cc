#include "kernels/amx/amx_k.h"

#include <bit>

#include "kernels/amx/amx_pass.h"

namespace butterfly::kernels::amx {
namespace {

// A panel of a 256-value type, unpacked, with what stays per block and row.
struct KPanel {
  const int8_t* low;
  const int8_t* high;
  const uint8_t* mins;  // u8 min[4 pairs][16 rows][2] per block, or null
  const uint8_t* d;     // f16 d[16] (and dmin[16]) per block
  size_t scale_bytes;   // from one block's mins and d to the next
};

// What a block is in its shard. Sums of a shard grow in level 0. Behind its last block they are added to
// those that wait in levels 1, 2 ... (of one, two ... shards), and go to the level above; those of a whole
// subtree to a place of their own. `level` floats from one to the next.
struct KCut {
  bool first = false, last = false;
  size_t folds = 0;
  size_t to = 0;  // level
};
// Sums of one, two and four shards wait; a subtree has at most eight.
constexpr size_t kSubtreeLevel = 4, kLevels = kSubtreeLevel + kSubtreesMax;
static_assert(kShardsMax == 8);

// Adds one block's exact sums to kTiles x `rows` accumulators. kAtCut: the first or the last block of a
// shard.
template <size_t kTiles, bool kAtCut>
BF_AMX void add_k_block(const KPanel& panel, size_t block, const int32_t (*sums)[kTileRows * 16],
                        const float* const* act_scales, const int32_t* const* act_sums, size_t rows,
                        float (*acc)[kTileRows * 16], const KCut& cut, size_t level) {
  const auto* halves = reinterpret_cast<const uint16_t*>(panel.d + block * panel.scale_bytes);
  const __m512 d = load_halves(halves);
  __m512i mins[4];
  __m512 dmin = _mm512_setzero_ps();
  if (panel.mins != nullptr) {
    dmin = load_halves(halves + kPanelRows);
    for (size_t pair = 0; pair < 4; ++pair)
      mins[pair] = _mm512_cvtepu8_epi16(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(panel.mins + block * panel.scale_bytes + pair * kPanelRows * 2)));
  }
  for (size_t t = 0; t < kTiles; ++t)
    for (size_t r = 0; r < rows; ++r) {
      const __m512i low = _mm512_load_si512(sums[2 * t] + r * 16);
      const __m512i high = _mm512_load_si512(sums[2 * t + 1] + r * 16);
      const __m512i sum = _mm512_add_epi32(low, _mm512_slli_epi32(high, 7));
      const __m512 da = _mm512_set1_ps(act_scales[t][block * kTileRows + r]);
      float* to = acc[t] + r * 16;
      __m512 value = kAtCut && cut.first ? _mm512_setzero_ps() : _mm512_load_ps(to);
      value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, da), value);
      if (panel.mins != nullptr) {
        const int32_t* pairs = act_sums[t] + block * 4 * kTileRows + r;
        __m512i min_sum = _mm512_setzero_si512();
        BF_UNROLL
        for (size_t pair = 0; pair < 4; ++pair)
          min_sum = _mm512_dpwssd_epi32(min_sum, mins[pair], _mm512_set1_epi32(pairs[pair * kTileRows]));
        value = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_sum), _mm512_mul_ps(dmin, da), value);
      }
      if (kAtCut && cut.last) {
        for (size_t i = 1; i <= cut.folds; ++i) value = _mm512_add_ps(_mm512_load_ps(to + i * level), value);
        to += cut.to * level;
      }
      _mm512_store_ps(to, value);
    }
}
template <size_t kTiles>
BF_AMX_INLINE void add_k(const KPanel& panel, size_t block, const int32_t (*sums)[kTileRows * 16],
                         const float* const* act_scales, const int32_t* const* act_sums, size_t rows,
                         float (*acc)[kTileRows * 16], const KCut& cut, size_t level) {
  (cut.first || cut.last ? add_k_block<kTiles, true> : add_k_block<kTiles, false>)(panel, block, sums,
                                                                                   act_scales, act_sums, rows,
                                                                                   acc, cut, level);
}

// Blocks that are unpacked at a time: low and high parts of both fit the first-level cache.
constexpr size_t kBlocksAhead = 2;

// kTiles (1 or 2) tiles of activations times blocks [begin, end) of a panel of a 256-value type: 64 columns a
// step, low and high part. Adds to `acc`; `cuts` are those of these blocks.
template <size_t kTiles>
BF_AMX void k_tiles(const KPanel& panel, size_t begin, size_t end, const int8_t* const* acts,
                    const float* const* act_scales, const int32_t* const* act_sums, size_t rows,
                    float (*acc)[kTileRows * 16], const KCut* cuts, size_t level) {
  asm volatile("" : : : "memory");
  alignas(64) int32_t sums[2][2 * kTiles][kTileRows * 16];
  for (size_t block = begin; block < end; ++block) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTiles == 2) {
      _tile_zero(2);
      _tile_zero(3);
    }
    const size_t weights = (block - begin) * 4096;
    for (size_t step = 0; step < 4; ++step) {
      const size_t act = (block * 4 + step) * rows * 64;
      _tile_loadd(4, acts[0] + act, 64);
      _tile_loadd(6, panel.low + weights + step * 1024, 64);
      _tile_dpbssd(0, 4, 6);
      _tile_loadd(7, panel.high + weights + step * 1024, 64);
      _tile_dpbssd(1, 4, 7);
      if constexpr (kTiles == 2) {
        _tile_loadd(5, acts[1] + act, 64);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
      }
    }
    auto* to = sums[block % 2];
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[1], 64);
    if constexpr (kTiles == 2) {
      _tile_stored(2, to[2], 64);
      _tile_stored(3, to[3], 64);
    }
    // One block behind: its sums are at rest while the tiles work on the next.
    if (block > begin)
      add_k<kTiles>(panel, block - 1, sums[(block - 1) % 2], act_scales, act_sums, rows, acc,
                    cuts[block - 1 - begin], level);
  }
  add_k<kTiles>(panel, end - 1, sums[(end - 1) % 2], act_scales, act_sums, rows, acc, cuts[end - 1 - begin],
                level);
}

// The cut of the block that begins at `column`, which is in shard `walk`.
KCut cut_of(const ShardWalk& walk, size_t column) {
  KCut cut{.first = column == walk.begin(), .last = column + 256 == walk.end()};
  if (!cut.last) return cut;
  cut.folds = static_cast<size_t>(std::countr_one(walk.shard()));
  cut.to = walk.last() ? kSubtreeLevel + walk.subtree() : 1 + cut.folds;
  return cut;
}

BF_AMX void k_panel(const KType& type, const Pass& pass, size_t panel_index, int8_t* room) {
  const MatmulJob& job = pass.job;
  const auto* quants = reinterpret_cast<const uint8_t*>(job.panels + panel_index * job.panel_bytes);
  const uint8_t* block_scales = quants + job.cols / 32 * type.sub_bytes;
  int8_t* high = room + kBlocksAhead * 4096;
  auto* acc = reinterpret_cast<float(*)[kTileRows * 16]>(room + 2 * kBlocksAhead * 4096);
  const KPanel panel{room, high, type.has_min ? block_scales + panel::kKMinsOffset : nullptr,
                     block_scales + type.d_offset, type.scale_bytes};
  const size_t per_tile = pass.blocks * kTileRows, rows = pass.tiles.height;
  const size_t level = pass.tiles.count * kTileRows * 16;
  ShardWalk walk(job.cuts);
  for (size_t begin = 0; begin < pass.blocks; begin += kBlocksAhead) {
    const size_t end = std::min(pass.blocks, begin + kBlocksAhead);
    type.unpack(quants, job.cols, begin, end, room, high);
    const size_t step = 8 * type.sub_bytes + type.scale_bytes;
    prefetch(pass.next_panel(panel_index) + begin * step, (end - begin) * step);
    KCut cuts[kBlocksAhead];
    for (size_t block = begin; block < end; ++block) {
      cuts[block - begin] = cut_of(walk, block * 256);
      if (cuts[block - begin].last) walk.next();
    }
    for (size_t tile = 0; tile < pass.tiles.count; tile += 2) {
      const int8_t* acts[2];
      const float* scales[2];
      const int32_t* sums[2];
      const size_t pair = std::min<size_t>(2, pass.tiles.count - tile);
      for (size_t t = 0; t < pair; ++t) {
        acts[t] = pass.acts(tile + t);
        scales[t] = pass.side.scales.data() + (tile + t) * per_tile;
        sums[t] = pass.side.sum_pairs.data() + (tile + t) * 4 * per_tile;
      }
      (pair == 2 ? k_tiles<2> : k_tiles<1>)(panel, begin, end, acts, scales, sums, rows, acc + tile, cuts,
                                            level);
    }
  }
  for (size_t subtree = 0; subtree < job.cuts.subtree_count; ++subtree)
    for (size_t tile = 0; tile < pass.tiles.count; ++tile) {
      const Output out = pass.out(tile, panel_index).subtree(subtree);
      const float* sums = acc[tile] + (kSubtreeLevel + subtree) * level;
      const bool tree = job.cuts.shards[subtree] > 1;
      for (size_t r = 0; r < rows; ++r) {
        const __m512 sum = _mm512_load_ps(sums + r * 16);
        out.store(r, tree ? tree_result(sum) : sum);
      }
    }
}

}  // namespace

void matmul_k(const MatmulJob& job, const KType& type) {
  const size_t acc_bytes = kLevels * pass_tiles(job) * kTileRows * 16 * sizeof(float);
  each_panel(
      job, {ActKind::kQ8x256, 64, 2 * kBlocksAhead * 4096 + acc_bytes},
      [&](const Pass& pass, size_t panel_index, int8_t* room) { k_panel(type, pass, panel_index, room); });
}

}  // namespace butterfly::kernels::amx
