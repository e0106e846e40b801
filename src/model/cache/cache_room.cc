#include "model/cache/cache_room.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

// States of a running text: the one it goes on from, the one it writes, the last at the end of a block.
constexpr size_t kStatesPerText = 3;
constexpr size_t kSnapshots = 4;  // besides one for each text

}  // namespace

CacheRoom cache_room(std::span<const LayerState> layers, const CacheWish& wish) {
  CacheRoom room{.pages = {}, .window = 0, .sequences = wish.sequences};
  const size_t pages = ceil_div(wish.positions, kernels::kKvPage);
  room.pages[static_cast<size_t>(PageKind::kFull)] = pages;
  size_t window = 0;
  bool recurrent = false;
  for (const LayerState& layer : layers) {
    window = std::max(window, layer.kind == StateKind::kWindow ? layer.window : 0);
    recurrent = recurrent || layer.kind == StateKind::kRecurrent;
  }
  if (window > 0 && wish.cut_windows) {
    const size_t touched = std::min<size_t>(ceil_div(window, kernels::kKvPage), pages) + 2;
    const size_t wanted = (wish.sequences + 1) * touched + ceil_div(wish.rows_max, kernels::kKvPage);
    if (wanted < pages) {
      room.window = window;
      room.pages[static_cast<size_t>(PageKind::kWindow)] = wanted;
    }
  }
  if (recurrent)
    room.pages[static_cast<size_t>(PageKind::kState)] = (kStatesPerText + 1) * wish.sequences + kSnapshots;
  return room;
}

PageKind page_kind(const LayerState& layer, const CacheRoom& room) {
  if (layer.kind == StateKind::kRecurrent) return PageKind::kState;
  return layer.window > 0 && room.window > 0 ? PageKind::kWindow : PageKind::kFull;
}

uint64_t page_bytes(const LayerState& layer, DType kv_type) {
  if (layer.kind == StateKind::kRecurrent) return round_up(layer.state_floats * sizeof(float), 64);
  if (!layer.keeps_keys()) return 0;
  const kernels::KvLayout layout = kv_layout(layer, kv_type);
  if (const char* why = kernels::kv_why_not(layout))
    fail(Errc::kUnsupported, "key/value cache of type {} for heads of {}: {}", dtype_name(kv_type),
         layer.head_dim, why);
  return layer.kv_heads * layout.page_bytes();
}

uint64_t state_bytes(const LayerState& layer, DType kv_type, const CacheRoom& room) {
  const uint64_t page = page_bytes(layer, kv_type);
  const size_t pages = room.of(page_kind(layer, room));
  const auto bytes = checked_mul(pages, page);
  if (!bytes)
    fail(Errc::kOutOfMemory, "key/value cache: {} pages of {} bytes for each layer do not fit", pages, page);
  return *bytes + room.sequences * graph::kGuessesMax * layer.guess_floats * sizeof(float);
}

uint64_t state_bytes(std::span<const LayerState> layers, DType kv_type, const CacheRoom& room) {
  uint64_t sum = 0;
  for (const LayerState& layer : layers) {
    const auto total = checked_add(sum, state_bytes(layer, kv_type, room));
    if (!total) fail(Errc::kOutOfMemory, "key/value cache: the pages of {} layers do not fit", layers.size());
    sum = *total;
  }
  return sum;
}

uint64_t bytes_per_position(std::span<const LayerState> layers, DType kv_type) {
  uint64_t bytes = 0;
  for (const LayerState& layer : layers)
    if (layer.keeps_keys()) bytes += page_bytes(layer, kv_type) / kernels::kKvPage;
  return bytes;
}

}  // namespace butterfly::model
