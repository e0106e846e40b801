// The tile instructions as plain loops, for machines that have AVX-512 but no tiles: built with
// -DBUTTERFLY_EMULATE_TILES=ON, target "AMX" exists there and tests cover it. Slow. Only for x86-64 sources.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace butterfly::kernels::amx {

// The tile registers of one thread, as ldtilecfg sets them up.
struct EmulatedTiles {
  uint8_t rows[8];
  uint16_t row_bytes[8];
  uint8_t data[8][16][64];

  static EmulatedTiles& mine() {
    thread_local EmulatedTiles tiles;
    return tiles;
  }
  // `shapes`: the 64 bytes of ldtilecfg.
  void configure(const void* shapes) {
    const auto* bytes = static_cast<const uint8_t*>(shapes);
    std::memcpy(row_bytes, bytes + 16, sizeof(row_bytes));
    std::memcpy(rows, bytes + 48, sizeof(rows));
    std::memset(data, 0, sizeof(data));
  }
  void load(size_t tile, const void* from, size_t stride) {
    std::memset(data[tile], 0, sizeof(data[tile]));
    for (size_t r = 0; r < rows[tile]; ++r)
      std::memcpy(data[tile][r], static_cast<const uint8_t*>(from) + r * stride, row_bytes[tile]);
  }
  void store(size_t tile, void* to, size_t stride) const {
    for (size_t r = 0; r < rows[tile]; ++r)
      std::memcpy(static_cast<uint8_t*>(to) + r * stride, data[tile][r], row_bytes[tile]);
  }
  void zero(size_t tile) { std::memset(data[tile], 0, sizeof(data[tile])); }
  // Sums of products of four signed bytes, for each 32-bit cell of `to`.
  void multiply(size_t to, size_t a, size_t b) {
    for (size_t r = 0; r < rows[to]; ++r)
      for (size_t col = 0; col < row_bytes[to] / 4u; ++col) {
        int32_t sum;
        std::memcpy(&sum, data[to][r] + 4 * col, 4);
        for (size_t k = 0; k < row_bytes[a]; ++k)
          sum += static_cast<int8_t>(data[a][r][k]) * static_cast<int8_t>(data[b][k / 4][4 * col + k % 4]);
        std::memcpy(data[to][r] + 4 * col, &sum, 4);
      }
  }
};

}  // namespace butterfly::kernels::amx

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_release
#define _tile_loadd(tile, from, stride) \
  ::butterfly::kernels::amx::EmulatedTiles::mine().load(tile, from, stride)
#define _tile_stored(tile, to, stride) \
  ::butterfly::kernels::amx::EmulatedTiles::mine().store(tile, to, stride)
#define _tile_zero(tile) ::butterfly::kernels::amx::EmulatedTiles::mine().zero(tile)
#define _tile_dpbssd(to, a, b) ::butterfly::kernels::amx::EmulatedTiles::mine().multiply(to, a, b)
#define _tile_release() static_cast<void>(0)
