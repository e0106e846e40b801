// Tile registers: what they hold, and the numbers they are known by in the kernels. Only for x86-64 sources.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(BUTTERFLY_EMULATE_TILES)
#include "kernels/amx/emulated_tiles.h"
#endif

// Functions with tile and AVX-512 instructions; called only when has_int8_tiles().
#define BF_AMX \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma,amx-tile,amx-int8")))
#define BF_AMX_INLINE BF_AMX __attribute__((always_inline)) inline

#ifndef BF_UNROLL
#define BF_UNROLL _Pragma("GCC unroll 16")
#endif

namespace butterfly::kernels::amx {

// Tiles 0 to 3 collect results (rows x 16 int32), 4 and 5 hold activations (rows x depth bytes), 6 and 7
// weights (depth / 4 chunks x 16 outputs x 4 bytes): what a panel of packed weights holds, in its order.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  TileShapes(size_t act_rows, size_t depth) {
    for (size_t i = 0; i < 6; ++i) {
      rows[i] = static_cast<uint8_t>(act_rows);
      row_bytes[i] = static_cast<uint16_t>(i < 4 ? 64 : depth);
    }
    for (size_t i = 6; i < 8; ++i) {
      rows[i] = static_cast<uint8_t>(depth / 4);
      row_bytes[i] = 64;
    }
  }
};
static_assert(sizeof(TileShapes) == 64);

// Sets the tiles up, and gives them back: a thread that holds tiles makes every context switch dearer.
class TileScope {
 public:
  // Not the intrinsic: GCC 12 believes that it reads eight bytes, and may leave the rest unwritten.
#if defined(BUTTERFLY_EMULATE_TILES)
  explicit TileScope(const TileShapes& shapes) { EmulatedTiles::mine().configure(&shapes); }
#else
  BF_AMX explicit TileScope(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
#endif
  BF_AMX ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

}  // namespace butterfly::kernels::amx
