#include "kernels/amx.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/activation_rows.h"
#include "kernels/amx_tiles.h"
#include "kernels/amx_unpack.h"
#include "tensor/buffer.h"

namespace butterfly::kernels::amx {
namespace {

constexpr size_t kTileRows = 16;

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

struct Output {
  float* y;
  size_t stride;
  __mmask16 valid;

  BF_AMX_INLINE void store(size_t row, __m512 v) const { _mm512_mask_storeu_ps(y + row * stride, valid, v); }
};

BF_AMX_INLINE __m512 load_halves(const uint16_t* from) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// One block of 32 columns into result tile `kTile`.
#define BF_AMX_BLOCK(kTile, kActs, kWeights, block)             \
  _tile_loadd(kActs, acts + (block)*rows * 32, 32);             \
  _tile_loadd(kWeights, weights + (block)*panel::kByteSub, 64); \
  _tile_zero(kTile);                                            \
  _tile_dpbssd(kTile, kActs, kWeights)

// A tile of kRows rows times a panel of bytes with one scale per 32 columns. Four result tiles take turns, so
// that storing one block, multiplying the next and scaling the last overlap.
template <size_t kRows>
BF_AMX void byte_tile(const int8_t* weights, const uint16_t* scales, const int8_t* acts,
                      const float* act_scales, size_t blocks, const Output& out, size_t rows) {
  // Tile loads do not tell GCC 12 what they read: what was written must be in memory by now.
  asm volatile("" : : : "memory");
  alignas(64) int32_t sums[4][kTileRows * 16];
  __m512 acc[kRows];
  BF_UNROLL
  for (size_t r = 0; r < kRows; ++r) acc[r] = _mm512_setzero_ps();
  const auto scale = [&](size_t slot, size_t block) BF_AMX __attribute__((always_inline)) {
    const __m512 d = load_halves(scales + block * kPanelRows);
    BF_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 da = _mm512_set1_ps(act_scales[block * kTileRows + r]);
      const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[slot] + r * 16));
      acc[r] = _mm512_fmadd_ps(sum, _mm512_mul_ps(d, da), acc[r]);
    }
  };
  size_t block = 0;
  if (blocks >= 4) {
    BF_AMX_BLOCK(0, 4, 6, 0);
    BF_AMX_BLOCK(1, 5, 7, 1);
    BF_AMX_BLOCK(2, 4, 6, 2);
    BF_AMX_BLOCK(3, 5, 7, 3);
    for (block = 4; block + 4 <= blocks; block += 4) {
      _tile_stored(0, sums[0], 64);
      BF_AMX_BLOCK(0, 4, 6, block);
      scale(0, block - 4);
      _tile_stored(1, sums[1], 64);
      BF_AMX_BLOCK(1, 5, 7, block + 1);
      scale(1, block - 3);
      _tile_stored(2, sums[2], 64);
      BF_AMX_BLOCK(2, 4, 6, block + 2);
      scale(2, block - 2);
      _tile_stored(3, sums[3], 64);
      BF_AMX_BLOCK(3, 5, 7, block + 3);
      scale(3, block - 1);
    }
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
    for (size_t i = 0; i < 4; ++i) scale(i, block - 4 + i);
  }
  for (; block < blocks; ++block) {
    BF_AMX_BLOCK(0, 4, 6, block);
    _tile_stored(0, sums[0], 64);
    scale(0, block);
  }
  BF_UNROLL
  for (size_t r = 0; r < kRows; ++r)
    if (r < rows) out.store(r, acc[r]);
}
#undef BF_AMX_BLOCK

using ByteTile = void (*)(const int8_t*, const uint16_t*, const int8_t*, const float*, size_t, const Output&,
                          size_t);
ByteTile byte_tile_for(size_t rows) {
  constexpr std::array<ByteTile, 4> kTiles = {byte_tile<4>, byte_tile<8>, byte_tile<12>, byte_tile<16>};
  return kTiles[(rows - 1) / 4];
}

// A panel of a 256-value type, unpacked, with what stays per block and row.
struct KPanel {
  const int8_t* low;
  const int8_t* high;
  const uint8_t* mins;  // u8 min[4 pairs][16 rows][2] per block, or null
  const uint8_t* d;     // f16 d[16] (and dmin[16]) per block
  size_t scale_bytes;   // from one block's mins and d to the next
};

// Adds one block's exact sums to kTiles x `rows` accumulators.
template <size_t kTiles>
BF_AMX void add_k_block(const KPanel& panel, size_t block, const int32_t (*sums)[kTileRows * 16],
                        const float* const* act_scales, const int32_t* const* act_sums, size_t rows,
                        float (*acc)[kTileRows * 16]) {
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
      __m512 value = _mm512_load_ps(acc[t] + r * 16);
      value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, da), value);
      if (panel.mins != nullptr) {
        const int32_t* pairs = act_sums[t] + block * 4 * kTileRows + r;
        __m512i min_sum = _mm512_setzero_si512();
        BF_UNROLL
        for (size_t pair = 0; pair < 4; ++pair)
          min_sum = _mm512_dpwssd_epi32(min_sum, mins[pair], _mm512_set1_epi32(pairs[pair * kTileRows]));
        value = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min_sum), _mm512_mul_ps(dmin, da), value);
      }
      _mm512_store_ps(acc[t] + r * 16, value);
    }
}

// Blocks that are unpacked at a time: low and high parts of both fit the first-level cache.
constexpr size_t kBlocksAhead = 2;

// kTiles (1 or 2) tiles of activations times blocks [begin, end) of a panel of a 256-value type: 64 columns a
// step, low and high part. Adds to `acc`.
template <size_t kTiles>
BF_AMX void k_tiles(const KPanel& panel, size_t begin, size_t end, const int8_t* const* acts,
                    const float* const* act_scales, const int32_t* const* act_sums, size_t rows,
                    float (*acc)[kTileRows * 16]) {
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
      add_k_block<kTiles>(panel, block - 1, sums[(block - 1) % 2], act_scales, act_sums, rows, acc);
  }
  add_k_block<kTiles>(panel, end - 1, sums[(end - 1) % 2], act_scales, act_sums, rows, acc);
}

// Memory of one thread, kept from job to job.
struct Scratch {
  ActSide side;
  Buffer weights;  // a panel of bytes, or the parts of kBlocksAhead blocks and accumulators

  int8_t* room(size_t bytes) {
    if (weights.size() < bytes) weights = Buffer::allocate(bytes);
    return reinterpret_cast<int8_t*>(weights.data());
  }
};
Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

struct Pass {
  const MatmulJob& job;
  const RowTiles& tiles;
  const ActSide& side;
  size_t blocks;

  const int8_t* acts(size_t tile) const {
    return reinterpret_cast<const int8_t*>(side.quants.data()) + tile * tiles.height * job.cols;
  }
  Output out(size_t tile, size_t panel_index) const {
    const size_t first = panel_index * kPanelRows, valid = std::min(kPanelRows, job.rows - first);
    return {job.y + tiles.start(tile) * job.y_stride + first, job.y_stride,
            static_cast<__mmask16>((1u << valid) - 1)};
  }
};

BF_AMX void byte_panel(DType dtype, const Pass& pass, size_t panel_index, int8_t* room) {
  const MatmulJob& job = pass.job;
  const auto* panel_data = reinterpret_cast<const uint8_t*>(job.panels + panel_index * job.panel_bytes);
  const int8_t* weights = reinterpret_cast<const int8_t*>(panel_data);
  size_t sub_bytes = panel::kByteSub;
  if (dtype == DType::kQ4_0) {
    unpack_q4_0(panel_data, job.cols, room);
    weights = room;
    sub_bytes = panel::kNibbleSub;
  } else if (dtype == DType::kQ5_0) {
    unpack_q5_0(panel_data, job.cols, room);
    weights = room;
    sub_bytes = panel::kFiveBitSub;
  }
  const ByteTile tile_fn = byte_tile_for(pass.tiles.height);
  for (size_t tile = 0; tile < pass.tiles.count; ++tile)
    tile_fn(weights, reinterpret_cast<const uint16_t*>(panel_data + panel::q32_scales(job.cols, sub_bytes)),
            pass.acts(tile), pass.side.scales.data() + tile * pass.blocks * kTileRows, pass.blocks,
            pass.out(tile, panel_index), pass.tiles.height);
}

using UnpackK = void (*)(const uint8_t*, size_t, size_t, size_t, int8_t*, int8_t*);
struct KType {
  UnpackK unpack;
  size_t sub_bytes, scale_bytes, d_offset;
  bool has_min;
};
KType k_type(DType dtype) {
  if (dtype == DType::kQ4_K)
    return {unpack_k<DType::kQ4_K>, panel::kQ4KSub, panel::kKScales, panel::kKDOffset, true};
  if (dtype == DType::kQ5_K)
    return {unpack_k<DType::kQ5_K>, panel::kQ5KSub, panel::kKScales, panel::kKDOffset, true};
  return {unpack_k<DType::kQ6_K>, panel::kQ6KSub, panel::kQ6KScales, panel::kQ6KDOffset, false};
}

BF_AMX void k_panel(DType dtype, const Pass& pass, size_t panel_index, int8_t* room) {
  const MatmulJob& job = pass.job;
  const KType type = k_type(dtype);
  const auto* quants = reinterpret_cast<const uint8_t*>(job.panels + panel_index * job.panel_bytes);
  const uint8_t* block_scales = quants + job.cols / 32 * type.sub_bytes;
  int8_t* high = room + kBlocksAhead * 4096;
  auto* acc = reinterpret_cast<float(*)[kTileRows * 16]>(room + 2 * kBlocksAhead * 4096);
  const KPanel panel{room, high, type.has_min ? block_scales + panel::kKMinsOffset : nullptr,
                     block_scales + type.d_offset, type.scale_bytes};
  const size_t per_tile = pass.blocks * kTileRows, rows = pass.tiles.height;
  std::memset(acc, 0, pass.tiles.count * sizeof(acc[0]));
  for (size_t begin = 0; begin < pass.blocks; begin += kBlocksAhead) {
    const size_t end = std::min(pass.blocks, begin + kBlocksAhead);
    type.unpack(quants, job.cols, begin, end, room, high);
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
      (pair == 2 ? k_tiles<2> : k_tiles<1>)(panel, begin, end, acts, scales, sums, rows, acc + tile);
    }
  }
  for (size_t tile = 0; tile < pass.tiles.count; ++tile) {
    const Output out = pass.out(tile, panel_index);
    for (size_t r = 0; r < rows; ++r) out.store(r, _mm512_load_ps(acc[tile] + r * 16));
  }
}

bool ask() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25, kVnni = 1u << 11;
  if ((d & kTile) == 0 || (d & kInt8) == 0 || (c & kVnni) == 0) return false;
  constexpr unsigned long kTileData = 18;
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
}

}  // namespace

bool available() {
  static const bool answer = ask();
  return answer;
}

bool takes(DType dtype, size_t m) {
  // From these rows on unpacking a panel is paid for (Sapphire Rapids, kernels_bench matmul/).
  switch (dtype) {
    case DType::kQ8_0:
      return m >= 8;  // nothing to unpack
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return m >= 17;
    default:
      return false;
  }
}

void matmul(DType dtype, const MatmulJob& job) {
  // Activations of one pass stay in the second-level cache while the panels go by.
  constexpr size_t kPassBytes = size_t{1} << 20;
  const ActKind kind = act_kind(dtype);
  const bool bytes = kind == ActKind::kQ8x32;
  const size_t depth = bytes ? 32 : 64;
  const size_t pass_rows = std::clamp(kPassBytes / job.cols / 32 * 32, size_t{32}, size_t{512});
  Scratch& memory = scratch();
  const size_t pass_tiles = (std::min(pass_rows, job.m) + kTileRows - 1) / kTileRows;
  int8_t* room = memory.room(bytes ? kPanelRows * job.cols
                                   : 2 * kBlocksAhead * 4096 + pass_tiles * kTileRows * 16 * sizeof(float));
  for (size_t row = 0; row < job.m; row += pass_rows) {
    const RowTiles tiles(row, std::min(pass_rows, job.m - row));
    memory.side.gather(job, kind, tiles, depth);
    const Pass pass{job, tiles, memory.side, job.cols / act_block(kind)};
    const TileScope scope(TileShapes(tiles.height, depth));
    for (size_t panel_index = job.panel_begin; panel_index < job.panel_end; ++panel_index)
      (bytes ? byte_panel : k_panel)(dtype, pass, panel_index, room);
  }
}

}  // namespace butterfly::kernels::amx
