#include "kernels/amx/amx.h"

#include "base/check.h"
#include "kernels/amx/amx_bytes.h"
#include "kernels/amx/amx_k.h"
#include "kernels/amx/amx_k_few.h"

namespace butterfly::kernels::amx {
namespace {

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

}  // namespace

bool takes(DType dtype, size_t m) {
  // From these rows on unpacking a panel is paid for (Sapphire Rapids, kernels_bench matmul/ and bench
  // --streams).
  switch (dtype) {
    case DType::kQ8_0:
      return m >= 8;
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ4_K:
      return m >= 6;
    case DType::kQ5_K:
    case DType::kQ6_K:
      return m > kTileRows;
    default:
      return false;
  }
}

void matmul(DType dtype, const MatmulJob& job) {
  // Activations of one pass stay in the second-level cache while the panels go by.
  constexpr size_t kPassBytes = size_t{1} << 20;
  const ActKind kind = act_kind(dtype);
  const bool bytes = kind == ActKind::kQ8x32;
  const bool few = dtype == DType::kQ4_K && job.m <= kTileRows;
  const size_t depth = bytes || few ? 32 : 64;
  const size_t pass_rows = std::clamp(kPassBytes / job.cols / 32 * 32, size_t{32}, size_t{512});
  Scratch& memory = scratch();
  const size_t pass_tiles = (std::min(pass_rows, job.m) + kTileRows - 1) / kTileRows;
  int8_t* room = memory.room(bytes ? std::max(kPanelRows * job.cols, kFeedRing * panel::kByteSub)
                             : few ? kFewRing * panel::kByteSub
                                   : 2 * kBlocksAhead * 4096 + pass_tiles * kTileRows * 16 * sizeof(float));
  for (size_t row = 0; row < job.m; row += pass_rows) {
    const RowTiles tiles(row, std::min(pass_rows, job.m - row));
    memory.side.gather(job, kind, tiles, depth);
    const Pass pass{job, tiles, memory.side, job.cols / act_block(kind)};
    const TileScope scope(TileShapes(tiles.height, depth));
    for (size_t panel_index = job.panel_begin; panel_index < job.panel_end; ++panel_index) {
      if (bytes) {
        byte_panel(dtype, pass, panel_index, room);
      } else if (few) {
        few_panel(pass, panel_index, room);
      } else {
        k_panel(dtype, pass, panel_index, room);
      }
    }
  }
}

}  // namespace butterfly::kernels::amx
