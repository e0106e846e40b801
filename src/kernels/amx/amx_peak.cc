#include "kernels/amx/amx_peak.h"

#include "kernels/amx/amx_tiles.h"

namespace butterfly::kernels::amx {

BF_AMX uint64_t run_int8(uint64_t rounds) {
  constexpr size_t kRows = 16, kDepth = 64;
  const TileScope scope(TileShapes(kRows, kDepth));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (uint64_t r = 0; r < rounds; ++r) {
    // Four results from two tiles of each side, as the product does it.
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  return rounds * 4 * 2 * kRows * kRows * kDepth;
}

}  // namespace butterfly::kernels::amx
