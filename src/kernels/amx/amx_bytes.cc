#include "kernels/amx/amx_bytes.h"

#include "kernels/amx/amx_pass.h"

namespace butterfly::kernels::amx {
namespace {

// What all panels of a product share. `unpacked`: they become bytes in `room`; else they are bytes.
struct ByteProduct {
  size_t sub_bytes;
  bool unpacked;
  const ByteTiles& first;

  // `room` has 16 bytes per column, and at least kFeedRing blocks.
  void panel(const Pass& pass, size_t panel_index, int8_t* room) const {
    const MatmulJob& job = pass.job;
    std::byte* packed = const_cast<std::byte*>(job.panels) + panel_index * job.panel_bytes;
    const BytePanel panel{
        .quants = reinterpret_cast<const uint8_t*>(packed),
        .sub_bytes = sub_bytes,
        .bytes = unpacked ? room : reinterpret_cast<int8_t*>(packed),
        // Bytes that one tile uses stay in the first-level cache.
        .mask = !unpacked || pass.tiles.count > 1 ? ~size_t{0} : kFeedRing - 1,
        .scales = reinterpret_cast<const uint16_t*>(packed + panel::q32_scales(job.cols, sub_bytes)),
        .next = pass.next_panel(panel_index)};
    constexpr ByteTiles kOthers = byte_tiles<NoFeed>();
    const size_t index = byte_tile_index(pass.tiles.height, job.cuts);
    for (size_t tile = 0; tile < pass.tiles.count; ++tile)
      (tile == 0 ? first : kOthers)[index](
          panel, pass.acts(tile), pass.side.scales.data() + tile * pass.blocks * kTileRows, pass.blocks,
          job.cuts, pass.out(tile, panel_index), pass.tiles.height);
  }

  void run(const MatmulJob& job) const {
    const size_t room = std::max(kPanelRows * job.cols, kFeedRing * panel::kByteSub);
    each_panel(job, {ActKind::kQ8x32, 32, room},
               [&](const Pass& pass, size_t panel_index, int8_t* to) { panel(pass, panel_index, to); });
  }
};

}  // namespace

void matmul_unpacked(const MatmulJob& job, size_t sub_bytes, const ByteTiles& first) {
  ByteProduct{sub_bytes, true, first}.run(job);
}

void matmul_packed_bytes(const MatmulJob& job) {
  constexpr ByteTiles kFirst = byte_tiles<PrefetchOnly>();
  ByteProduct{panel::kByteSub, false, kFirst}.run(job);
}

}  // namespace butterfly::kernels::amx
