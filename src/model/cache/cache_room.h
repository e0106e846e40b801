// How much a cache has room for: pages of each kind. All stages of a chain have the same, because the engine
// numbers pages for all of them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/kv_step.h"
#include "model/cache/layer_state.h"
#include "tensor/dtype.h"

namespace butterfly::model {

using graph::PageKind;

// What is wanted of a cache.
struct CacheWish {
  size_t positions = 0;   // over all sequences
  size_t sequences = 1;   // at once
  size_t rows_max = 512;  // of one step
  // False: layers with a window keep all positions too, on the same pages as the others.
  bool cut_windows = true;
};

struct CacheRoom {
  std::array<size_t, graph::kPageKinds> pages = {};  // by kind
  size_t window = 0;     // positions that pages of the window kind are kept for; 0: there are none
  size_t sequences = 0;  // with a place for guesses

  size_t of(PageKind kind) const { return pages[static_cast<size_t>(kind)]; }
  // Some layers' pages are numbered apart.
  bool has_more_kinds() const { return of(PageKind::kWindow) > 0 || of(PageKind::kState) > 0; }
  friend bool operator==(const CacheRoom&, const CacheRoom&) = default;
};

// `layers`: of the whole model, so that all its parts come to the same numbers.
//
// A text with a window needs the pages that the window touches and those of the step's rows; besides there
// is room for one more window that was kept for a later text. Where that is no less than all positions, the
// window is not cut. A text with recurrent layers needs the state that it goes on from, the one it writes,
// and the last one at the end of a block; besides there is room for as many snapshots and a few.
CacheRoom cache_room(std::span<const LayerState> layers, const CacheWish& wish);

// The kind of pages that a layer has in this room.
PageKind page_kind(const LayerState& layer, const CacheRoom& room);
// Bytes of one page of the layer; 0 where it keeps nothing of its own. Throws Error kUnsupported for a cache
// type that does not fit its heads.
uint64_t page_bytes(const LayerState& layer, DType kv_type);
// Of all pages of the layer, and of its guesses.
uint64_t state_bytes(const LayerState& layer, DType kv_type, const CacheRoom& room);
uint64_t state_bytes(std::span<const LayerState> layers, DType kv_type, const CacheRoom& room);

// Bytes that one more position of a text takes where no window is cut.
uint64_t bytes_per_position(std::span<const LayerState> layers, DType kv_type);

}  // namespace butterfly::model
