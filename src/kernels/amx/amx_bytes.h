// Tile products of types with one scale per 32 columns: bytes, and what is unpacked to bytes. Only for x86-64
// sources.
#pragma once
#include <array>
#include <type_traits>

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

// Blocks that are unpacked before the tiles need them, and room for those in the tiles beside them.
inline constexpr size_t kFeedAhead = 8, kFeedRing = 16;

// What a tile does beside its products: prefetches the next panel, and unpacks this one a little ahead. The
// first tile of a panel does it for all. A type that is unpacked gives kSubBytes, what 32 columns take as
// packed, and run(), which makes kByteSub bytes of them.
struct NoFeed {};
struct PrefetchOnly {
  static constexpr size_t kSubBytes = panel::kByteSub;
};

// One block of 32 columns.
template <class Feed>
BF_AMX_INLINE void feed(const BytePanel& panel, size_t block) {
  if constexpr (!std::is_same_v<Feed, NoFeed>) {
    const size_t step = panel.sub_bytes + panel::kScaleRow;
    prefetch(panel.next + block * step, step);
    if constexpr (!std::is_same_v<Feed, PrefetchOnly>) {
      int8_t* to = panel.bytes + (block & panel.mask) * panel::kByteSub;
      Feed::run(panel.quants + block * Feed::kSubBytes, to);
    }
    // Tile loads do not tell GCC 12 what they read: what was written must be in memory by now.
    asm volatile("" : : : "memory");
  }
}

// One block of 32 columns into result tile `kTile`.
#define BF_AMX_BLOCK(kTile, kActs, kWeights, block)                    \
  _tile_loadd(kActs, acts + (block)*rows * 32, 32);                    \
  _tile_loadd(kWeights, bytes + ((block)&mask) * panel::kByteSub, 64); \
  _tile_zero(kTile);                                                   \
  _tile_dpbssd(kTile, kActs, kWeights)

// Takes the sums of `block` (+ kTile) out of their tile, sends the block four further on into it, and scales
// the sums of two blocks before (5 % faster at 256 rows than scaling those just stored). Shards begin at
// units of two blocks, and `block` is a multiple of four: odd blocks begin none.
#define BF_AMX_ROTATE(kTile, kActs, kWeights)                         \
  _tile_stored(kTile, sums[kTile], 64);                               \
  if (block + kTile + 4 < blocks) {                                   \
    BF_AMX_BLOCK(kTile, kActs, kWeights, block + kTile + 4);          \
  }                                                                   \
  feed_after(block + kTile);                                          \
  if (block + kTile >= 2) {                                           \
    if constexpr (kSharded && kTile % 2 == 0) cut(block + kTile - 2); \
    scale((kTile + 2) % 4, block + kTile - 2);                        \
  }

// A tile of kRows rows times a panel of bytes with one scale per 32 columns. Four result tiles rotate, so
// that storing one block, multiplying the next and scaling the last overlap. kSharded: `cuts` are more than
// one shard. At a cut the sums go to memory; the trees are added behind the last block, since in the loop
// they would take registers from it (17 %, with one shard too).
template <size_t kRows, class Feed, bool kSharded>
BF_AMX void byte_tile(const BytePanel& panel, const int8_t* acts, const float* act_scales, size_t blocks,
                      const ShardCuts& cuts, const Output& out, size_t rows) {
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
  constexpr size_t kStep = kRows * 16;
  alignas(64) float shard_sums[(kSharded ? kShardsMax : 1) * kStep];
  size_t shard = 0, shard_end = cuts.ends[0] / 32;
  [[maybe_unused]] const auto put = [&]() BF_AMX __attribute__((always_inline)) {
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) _mm512_store_ps(shard_sums + shard * kStep + r * 16, acc[r]);
  };
  // Before the sums of `block` are added: it may begin the next shard.
  [[maybe_unused]] const auto cut = [&](size_t begin) BF_AMX __attribute__((always_inline)) {
    if (__builtin_expect(begin != shard_end, 1)) return;
    put();
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) acc[r] = _mm512_setzero_ps();
    shard_end = cuts.ends[++shard] / 32;
  };
  const auto feed_after = [&](size_t block) BF_AMX __attribute__((always_inline)) {
    if (!std::is_same_v<Feed, NoFeed> && block + kFeedAhead < blocks) feed<Feed>(panel, block + kFeedAhead);
  };
  for (size_t i = 0; i < std::min(kFeedAhead, blocks); ++i) feed<Feed>(panel, i);
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
    BF_AMX_ROTATE(0, 4, 6);
    BF_AMX_ROTATE(1, 5, 7);
    BF_AMX_ROTATE(2, 4, 6);
    BF_AMX_ROTATE(3, 5, 7);
  }
  if (block < blocks) {
    BF_AMX_ROTATE(0, 4, 6);
  }
  if (block + 1 < blocks) {
    BF_AMX_ROTATE(1, 5, 7);
  }
  if (block + 2 < blocks) {
    BF_AMX_ROTATE(2, 4, 6);
  }
  for (block = blocks - std::min<size_t>(2, blocks); block < blocks; ++block) {
    if constexpr (kSharded) cut(block);
    scale(block % 4, block);
  }
  if constexpr (kSharded) {
    put();
    store_subtrees(cuts, shard_sums, kStep, out, rows);
  } else {
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r)
      if (r < rows) out.store(r, acc[r]);
  }
}
#undef BF_AMX_ROTATE
#undef BF_AMX_BLOCK

using ByteTile = void (*)(const BytePanel&, const int8_t*, const float*, size_t, const ShardCuts&,
                          const Output&, size_t);
// For tiles of up to 4, 8, 12 and 16 rows; those of one shard, then those of several.
using ByteTiles = std::array<ByteTile, 8>;
template <class Feed>
constexpr ByteTiles byte_tiles() {
  return {byte_tile<4, Feed, false>,  byte_tile<8, Feed, false>, byte_tile<12, Feed, false>,
          byte_tile<16, Feed, false>, byte_tile<4, Feed, true>,  byte_tile<8, Feed, true>,
          byte_tile<12, Feed, true>,  byte_tile<16, Feed, true>};
}
inline size_t byte_tile_index(size_t height, const ShardCuts& cuts) {
  return (cuts.shard_count() > 1 ? 4 : 0) + (height - 1) / 4;
}

// The job of PackFormat::matmul for a type that `first`, the first tile of each panel, unpacks from
// `sub_bytes` per 32 columns. Scratch belongs to the calling thread and is kept.
void matmul_unpacked(const MatmulJob& job, size_t sub_bytes, const ByteTiles& first);
template <class Unpack>
void matmul_bytes(const MatmulJob& job) {
  matmul_unpacked(job, Unpack::kSubBytes, byte_tiles<Unpack>());
}
// For panels that hold bytes.
void matmul_packed_bytes(const MatmulJob& job);

}  // namespace butterfly::kernels::amx
