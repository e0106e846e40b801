// Products by the matrix tiles (AMX-INT8) of newer Xeons, 16 x 16 results at a time: walks the panels in
// passes over the activation rows. Only for x86-64 sources.
//
// Integer sums are exact, so tiles give the bits of every other target; they only get there faster. Used
// above AVX3_DL, for batches of rows (docs/decisions/0005-amx.md).
#pragma once
#include "kernels/amx/amx_side.h"

namespace butterfly::kernels::amx {

// Memory of one thread, kept from job to job.
struct Scratch {
  ActSide side;
  Buffer weights;

  int8_t* room(size_t bytes) {
    if (weights.size() < bytes) weights = Buffer::allocate(bytes);
    return reinterpret_cast<int8_t*>(weights.data());
  }
};
// Of the calling thread.
inline Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

// Activations of one pass stay in the second-level cache while the panels go by.
inline size_t pass_rows(const MatmulJob& job) {
  constexpr size_t kPassBytes = size_t{1} << 20;
  return std::clamp(kPassBytes / job.cols / 32 * 32, size_t{32}, size_t{512});
}
inline size_t pass_tiles(const MatmulJob& job) {
  return (std::min(pass_rows(job), job.m) + kTileRows - 1) / kTileRows;
}

// What a kind of product needs of a pass.
struct PassShape {
  ActKind kind;
  size_t depth;       // columns of one tile product
  size_t room_bytes;  // scratch for the weights of a panel
};

// Calls panel(pass, panel index, room) for every panel of every pass.
template <class F>
void each_panel(const MatmulJob& job, const PassShape& shape, F&& panel) {
  Scratch& memory = scratch();
  int8_t* room = memory.room(shape.room_bytes);
  const size_t step = pass_rows(job);
  for (size_t row = 0; row < job.m; row += step) {
    const RowTiles tiles(row, std::min(step, job.m - row));
    memory.side.gather(job, shape.kind, tiles, shape.depth);
    const Pass pass{job, tiles, memory.side, job.cols / act_block(shape.kind)};
    const TileScope scope(TileShapes(tiles.height, shape.depth));
    for (size_t i = job.panel_begin; i < job.panel_end; ++i) panel(pass, i, room);
  }
}

}  // namespace butterfly::kernels::amx
