#include "kernels/amx/amx_k_few.h"

#include <array>

#include "kernels/amx/amx_pass.h"
#include "kernels/amx/amx_unpack.h"

namespace butterfly::kernels::amx {
namespace {

struct FewPanel {
  const uint8_t* quants;
  const uint8_t* scales;
  int8_t* bytes;  // room for kFewRing sub-blocks
  const std::byte* next;
  size_t blocks;
};
// Sub-blocks of 32 columns that are bytes at a time: four in the tiles, four to come, one being unpacked.
constexpr size_t kFewRing = 16;

BF_AMX_INLINE void feed_few(const FewPanel& panel, size_t sub) {
  constexpr size_t kStep = panel::kNibbleSub + panel::kKScales / 8;
  if (sub >= panel.blocks * 8) return;
  prefetch(panel.next + sub * kStep, kStep);
  unpack_nibbles_less_8(panel.quants + sub * panel::kNibbleSub,
                        panel.bytes + sub % kFewRing * panel::kByteSub);
  asm volatile("" : : : "memory");  // tile loads do not tell GCC 12 what they read
}

// Two rows of 16 scales as pairs of 16-bit numbers, for each of the 16 outputs.
BF_AMX_INLINE __m512i wide_scales(const uint8_t* row) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
}

#define BF_AMX_SUB(kTile, kActs, kWeights, sub)                                  \
  _tile_loadd(kActs, acts + (sub)*rows * 32, 32);                                \
  _tile_loadd(kWeights, panel.bytes + ((sub) % kFewRing) * panel::kByteSub, 64); \
  _tile_zero(kTile);                                                             \
  _tile_dpbssd(kTile, kActs, kWeights)

// Takes the sums of sub-block `sub` out of their tile, sends the one four further on into it, and adds the
// sums of four before.
#define BF_AMX_ROTATE(kTile, kActs, kWeights, half, sub) \
  _tile_stored(kTile, sums[half][kTile], 64);            \
  if ((sub) + 4 < subs) {                                \
    BF_AMX_SUB(kTile, kActs, kWeights, (sub) + 4);       \
  }                                                      \
  feed_few(panel, (sub) + 8);                            \
  if ((sub) >= 4) add(sums[1 - (half)][kTile], (sub)-4)

// One block of 256 columns behind: its first half is in sums[0], the second in sums[1].
template <size_t kRows>
BF_AMX void few_tile(const FewPanel& panel, const int8_t* acts, const float* act_scales,
                     const int32_t* act_sums, const ShardCuts& cuts, const Output& out, size_t rows) {
  alignas(64) int32_t sums[2][4][kTileRows * 16];
  alignas(64) float shard_sums[kShardsMax][kRows][16];
  size_t shard = 0, shard_end = cuts.ends[0] / 256;
  float(*acc)[16] = shard_sums[0];
  for (size_t r = 0; r < kRows; ++r) _mm512_store_ps(acc[r], _mm512_setzero_ps());
  const size_t subs = panel.blocks * 8;
  __m512i total[kRows];
  const auto scales_of = [&](size_t block) { return panel.scales + block * panel::kKScales; };
  const auto sums_of = [&](size_t block) { return act_sums + block * 4 * kTileRows; };  // [4][kTileRows]
  // 8 * scale * sum(activations): what taking 8 off the weights took off the block.
  const auto start = [&](size_t block) BF_AMX __attribute__((always_inline)) {
    const uint8_t* scale = scales_of(block);
    const int32_t* pairs = sums_of(block);
    __m512i offset[4];
    BF_UNROLL
    for (size_t p = 0; p < 4; ++p) {
      const __m512i first = wide_scales(scale + 2 * p * kPanelRows);
      const __m512i second = wide_scales(scale + (2 * p + 1) * kPanelRows);
      offset[p] = _mm512_slli_epi32(_mm512_or_si512(first, _mm512_slli_epi32(second, 16)), 3);
    }
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      total[r] = _mm512_setzero_si512();
      BF_UNROLL
      for (size_t p = 0; p < 4; ++p)
        total[r] = _mm512_dpwssd_epi32(total[r], offset[p], _mm512_set1_epi32(pairs[p * kTileRows + r]));
    }
  };
  const auto add = [&](const int32_t* from, size_t sub) BF_AMX __attribute__((always_inline)) {
    const __m512i by = wide_scales(scales_of(sub / 8) + sub % 8 * kPanelRows);
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r)
      total[r] = _mm512_dpwssd_epi32(total[r], by, _mm512_load_si512(from + r * 16));
  };
  const auto finish = [&](size_t block) BF_AMX __attribute__((always_inline)) {
    const uint8_t* scale = scales_of(block);
    const int32_t* pairs = sums_of(block);
    const auto* halves = reinterpret_cast<const uint16_t*>(scale + panel::kKDOffset);
    const __m512 d = load_halves(halves), dmin = load_halves(halves + kPanelRows);
    __m512i mins[4];
    BF_UNROLL
    for (size_t p = 0; p < 4; ++p)
      mins[p] = _mm512_cvtepu8_epi16(_mm256_loadu_si256(
          reinterpret_cast<const __m256i*>(scale + panel::kKMinsOffset + p * kPanelRows * 2)));
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 da = _mm512_set1_ps(act_scales[block * kTileRows + r]);
      const __m512 value =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[r]), _mm512_mul_ps(d, da), _mm512_load_ps(acc[r]));
      __m512i min_sum = _mm512_setzero_si512();
      BF_UNROLL
      for (size_t p = 0; p < 4; ++p)
        min_sum = _mm512_dpwssd_epi32(min_sum, mins[p], _mm512_set1_epi32(pairs[p * kTileRows + r]));
      _mm512_store_ps(acc[r], _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_sum), _mm512_mul_ps(dmin, da), value));
    }
    if (block + 1 == shard_end && block + 1 < panel.blocks) {  // the next block begins a shard
      acc = shard_sums[++shard];
      shard_end = cuts.ends[shard] / 256;
      for (size_t r = 0; r < kRows; ++r) _mm512_store_ps(acc[r], _mm512_setzero_ps());
    }
  };
  for (size_t sub = 0; sub < 8; ++sub) feed_few(panel, sub);
  BF_AMX_SUB(0, 4, 6, 0);
  BF_AMX_SUB(1, 5, 7, 1);
  BF_AMX_SUB(2, 4, 6, 2);
  BF_AMX_SUB(3, 5, 7, 3);
  for (size_t block = 0; block < panel.blocks; ++block) {
    const size_t sub = block * 8;
    BF_AMX_ROTATE(0, 4, 6, 0, sub);
    BF_AMX_ROTATE(1, 5, 7, 0, sub + 1);
    BF_AMX_ROTATE(2, 4, 6, 0, sub + 2);
    BF_AMX_ROTATE(3, 5, 7, 0, sub + 3);
    if (block > 0) finish(block - 1);
    start(block);
    BF_AMX_ROTATE(0, 4, 6, 1, sub + 4);
    BF_AMX_ROTATE(1, 5, 7, 1, sub + 5);
    BF_AMX_ROTATE(2, 4, 6, 1, sub + 6);
    BF_AMX_ROTATE(3, 5, 7, 1, sub + 7);
  }
  for (size_t i = 0; i < 4; ++i) add(sums[1][i], subs - 4 + i);
  finish(panel.blocks - 1);
  store_subtrees(cuts, shard_sums[0][0], kRows * 16, out, std::min(kRows, rows));
}
#undef BF_AMX_ROTATE
#undef BF_AMX_SUB

// `room` has kFewRing * panel::kByteSub bytes. One tile of rows.
BF_AMX void few_panel(const Pass& pass, size_t panel_index, int8_t* room) {
  using Tile = void (*)(const FewPanel&, const int8_t*, const float*, const int32_t*, const ShardCuts&,
                        const Output&, size_t);
  constexpr std::array<Tile, 4> kTiles = {few_tile<4>, few_tile<8>, few_tile<12>, few_tile<16>};
  const MatmulJob& job = pass.job;
  const auto* quants = reinterpret_cast<const uint8_t*>(job.panels + panel_index * job.panel_bytes);
  const FewPanel panel{quants, quants + job.cols / 32 * panel::kNibbleSub, room, pass.next_panel(panel_index),
                       pass.blocks};
  kTiles[(pass.tiles.height - 1) / 4](panel, pass.acts(0), pass.side.scales.data(),
                                      pass.side.sum_pairs.data(), job.cuts, pass.out(0, panel_index),
                                      pass.tiles.height);
}

}  // namespace

void matmul_k_few(const MatmulJob& job) {
  each_panel(job, {ActKind::kQ8x256, 32, kFewRing * panel::kByteSub}, few_panel);
}

}  // namespace butterfly::kernels::amx
