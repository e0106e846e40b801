// Tile products of types with one scale per 32 columns: Q8_0, and Q4_0 and Q5_0 unpacked to bytes. Only for
// x86-64 sources.
#pragma once
#include <array>

#include "kernels/amx/amx_side.h"
#include "kernels/amx/amx_unpack.h"

namespace butterfly::kernels::amx {

// A panel on its way through the tiles: as packed, as bytes, and the one behind it.
struct BytePanel {
  const uint8_t* quants;
  size_t sub_bytes;  // of 32 columns as packed
  int8_t* bytes;     // where they become bytes; the packed ones themselves for Q8_0
  size_t mask;       // block b is at place b & mask of `bytes`
  const uint16_t* scales;
  const std::byte* next;
};

// Blocks that are bytes before their turn, and room for those in the tiles beside them.
inline constexpr size_t kFeedAhead = 8, kFeedRing = 16;

// What a tile does beside its products: asks for the next panel, and unpacks this one a little ahead. The
// first tile of a panel does it for all.
enum class Feed { kNone, kAsk, kQ4_0, kQ5_0 };

// One block of 32 columns.
template <Feed kFeed>
BF_AMX_INLINE void feed(const BytePanel& panel, size_t block) {
  if constexpr (kFeed == Feed::kNone) return;
  const size_t step = panel.sub_bytes + panel::kScaleRow;
  prefetch(panel.next + block * step, step);
  int8_t* to = panel.bytes + (block & panel.mask) * panel::kByteSub;
  if constexpr (kFeed == Feed::kQ4_0) unpack_q4_0(panel.quants + block * panel::kNibbleSub, to);
  if constexpr (kFeed == Feed::kQ5_0) unpack_q5_0(panel.quants + block * panel::kFiveBitSub, to);
  // Tile loads do not tell GCC 12 what they read: what was written must be in memory by now.
  asm volatile("" : : : "memory");
}

// One block of 32 columns into result tile `kTile`.
#define BF_AMX_BLOCK(kTile, kActs, kWeights, block)                    \
  _tile_loadd(kActs, acts + (block)*rows * 32, 32);                    \
  _tile_loadd(kWeights, bytes + ((block)&mask) * panel::kByteSub, 64); \
  _tile_zero(kTile);                                                   \
  _tile_dpbssd(kTile, kActs, kWeights)

// Takes the sums of `block` (+ kTile) out of their tile, sends the block four further on into it, and scales
// the sums of two blocks before (5 % faster at 256 rows than scaling those just stored).
#define BF_AMX_TURN(kTile, kActs, kWeights)                  \
  _tile_stored(kTile, sums[kTile], 64);                      \
  if (block + kTile + 4 < blocks) {                          \
    BF_AMX_BLOCK(kTile, kActs, kWeights, block + kTile + 4); \
  }                                                          \
  feed_after(block + kTile);                                 \
  if (block + kTile >= 2) scale((kTile + 2) % 4, block + kTile - 2)

// A tile of kRows rows times a panel of bytes with one scale per 32 columns. Four result tiles take turns, so
// that storing one block, multiplying the next and scaling the last overlap.
template <size_t kRows, Feed kFeed>
BF_AMX void byte_tile(const BytePanel& panel, const int8_t* acts, const float* act_scales, size_t blocks,
                      const Output& out, size_t rows) {
  asm volatile("" : : : "memory");  // as in feed()
  alignas(64) int32_t sums[4][kTileRows * 16];
  const int8_t* const bytes = panel.bytes;
  const size_t mask = panel.mask;
  __m512 acc[kRows];
  BF_UNROLL
  for (size_t r = 0; r < kRows; ++r) acc[r] = _mm512_setzero_ps();
  const auto scale = [&](size_t slot, size_t block) BF_AMX __attribute__((always_inline)) {
    const __m512 d = load_halves(panel.scales + block * kPanelRows);
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 da = _mm512_set1_ps(act_scales[block * kTileRows + r]);
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[slot] + r * 16));
      acc[r] = _mm512_fmadd_ps(sum, _mm512_mul_ps(d, da), acc[r]);
    }
  };
  const auto feed_after = [&](size_t block) BF_AMX __attribute__((always_inline)) {
    if (kFeed != Feed::kNone && block + kFeedAhead < blocks) feed<kFeed>(panel, block + kFeedAhead);
  };
  for (size_t i = 0; i < std::min(kFeedAhead, blocks); ++i) feed<kFeed>(panel, i);
  BF_AMX_BLOCK(0, 4, 6, 0);
  if (blocks > 1) {
    BF_AMX_BLOCK(1, 5, 7, 1);
  }
  if (blocks > 2) {
    BF_AMX_BLOCK(2, 4, 6, 2);
  }
  if (blocks > 3) {
    BF_AMX_BLOCK(3, 5, 7, 3);
  }
  size_t block = 0;
  for (; block + 4 <= blocks; block += 4) {
    BF_AMX_TURN(0, 4, 6);
    BF_AMX_TURN(1, 5, 7);
    BF_AMX_TURN(2, 4, 6);
    BF_AMX_TURN(3, 5, 7);
  }
  if (block < blocks) {
    BF_AMX_TURN(0, 4, 6);
  }
  if (block + 1 < blocks) {
    BF_AMX_TURN(1, 5, 7);
  }
  if (block + 2 < blocks) {
    BF_AMX_TURN(2, 4, 6);
  }
  for (block = blocks - std::min<size_t>(2, blocks); block < blocks; ++block) scale(block % 4, block);
  BF_UNROLL
  for (size_t r = 0; r < kRows; ++r)
    if (r < rows) out.store(r, acc[r]);
}
#undef BF_AMX_TURN
#undef BF_AMX_BLOCK

using ByteTile = void (*)(const BytePanel&, const int8_t*, const float*, size_t, const Output&, size_t);
template <Feed kFeed>
ByteTile byte_tile_for(size_t rows) {
  constexpr std::array<ByteTile, 4> kTiles = {byte_tile<4, kFeed>, byte_tile<8, kFeed>, byte_tile<12, kFeed>,
                                              byte_tile<16, kFeed>};
  return kTiles[(rows - 1) / 4];
}

// What the first tile of a panel does.
inline ByteTile first_byte_tile(DType dtype, size_t rows) {
  if (dtype == DType::kQ4_0) return byte_tile_for<Feed::kQ4_0>(rows);
  if (dtype == DType::kQ5_0) return byte_tile_for<Feed::kQ5_0>(rows);
  return byte_tile_for<Feed::kAsk>(rows);
}

// `room` has 16 bytes per column, and at least kFeedRing blocks.
BF_AMX inline void byte_panel(DType dtype, const Pass& pass, size_t panel_index, int8_t* room) {
  const MatmulJob& job = pass.job;
  std::byte* packed = const_cast<std::byte*>(job.panels) + panel_index * job.panel_bytes;
  const size_t sub_bytes = dtype == DType::kQ4_0   ? panel::kNibbleSub
                           : dtype == DType::kQ5_0 ? panel::kFiveBitSub
                                                   : panel::kByteSub;
  const BytePanel panel{
      .quants = reinterpret_cast<const uint8_t*>(packed),
      .sub_bytes = sub_bytes,
      .bytes = dtype == DType::kQ8_0 ? reinterpret_cast<int8_t*>(packed) : room,
      // Bytes that one tile uses stay in the first-level cache.
      .mask = dtype == DType::kQ8_0 || pass.tiles.count > 1 ? ~size_t{0} : kFeedRing - 1,
      .scales = reinterpret_cast<const uint16_t*>(packed + panel::q32_scales(job.cols, sub_bytes)),
      .next = pass.next_panel(panel_index)};
  ByteTile tile_fn = first_byte_tile(dtype, pass.tiles.height);
  for (size_t tile = 0; tile < pass.tiles.count; ++tile) {
    tile_fn(panel, pass.acts(tile), pass.side.scales.data() + tile * pass.blocks * kTileRows, pass.blocks,
            pass.out(tile, panel_index), pass.tiles.height);
    tile_fn = byte_tile_for<Feed::kNone>(pass.tiles.height);
  }
}

}  // namespace butterfly::kernels::amx
