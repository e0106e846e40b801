#include "model/cache/kv_memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace butterfly::model {

using kernels::kKvPage;

KvMemory::KvMemory(CacheShape shape, const CacheRoom& room) : shape_(std::move(shape)), room_(room) {
  (void)state_bytes(shape_.layers, shape_.kv_type, room_);  // throws for what cannot be
}

KvMemory::Layer KvMemory::make_layer(size_t index) const {
  const LayerState& state = shape_.layers[index];
  Layer layer;
  layer.pages = Buffer::allocate(room_.of(page_kind(state, room_)) * page_bytes(state, shape_.kv_type));
  if (state.guess_floats > 0)
    layer.guesses =
        Buffer::allocate(room_.sequences * graph::kGuessesMax * state.guess_floats * sizeof(float));
  return layer;
}

void KvMemory::keep(size_t begin, size_t end) {
  const size_t first = std::clamp(begin, begin_, this->end()), last = std::clamp(end, first, this->end());
  const auto from = layers_.begin() + static_cast<ptrdiff_t>(first - begin_);
  layers_ = std::vector<Layer>(from, from + static_cast<ptrdiff_t>(last - first));
  begin_ = first;
  count();
}

void KvMemory::extend(size_t begin, size_t end) {
  BF_CHECK(end <= shape_.layers.size() && (layers_.empty() || (begin <= begin_ && end >= this->end())))
      << "layers " << begin << " to " << end << ", " << begin_ << " to " << this->end() << " are here";
  std::vector<Layer> layers;
  layers.reserve(end - begin);
  for (size_t i = begin; i < end; ++i)
    layers.push_back(i >= begin_ && i < this->end() ? layers_[i - begin_] : make_layer(i));
  layers_ = std::move(layers);
  begin_ = begin;
  count();
}

void KvMemory::count() {
  views_.clear();
  bytes_ = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerState& state = shape_.layers[begin_ + i];
    bytes_ += layers_[i].pages.size() + layers_[i].guesses.size();
    if (state.kind == StateKind::kShared && state.source >= begin_) {  // an earlier one, whose view is there
      views_.push_back(views_[state.source - begin_]);
      continue;
    }
    views_.push_back({.base = layers_[i].pages.data(),
                      .page_stride = page_bytes(state, shape_.kv_type),
                      .kind = page_kind(state, room_),
                      .layout = kv_layout(state, shape_.kv_type),
                      .kv_heads = state.kv_heads,
                      .guesses = reinterpret_cast<float*>(layers_[i].guesses.data()),
                      .guess_floats = state.guess_floats});
  }
}

// Layers that read another's pages have none of their own.
bool KvMemory::has_pages(size_t layer, PageKind kind) const {
  return views_[layer].kind == kind && shape_.layers[begin_ + layer].kind != StateKind::kShared;
}

size_t KvMemory::page_size(PageKind kind) const {
  size_t bytes = 0;
  for (size_t i = 0; i < views_.size(); ++i)
    if (room_.of(kind) > 0 && has_pages(i, kind)) bytes += views_[i].page_stride;
  return bytes;
}

std::span<std::byte> KvMemory::layer_page(size_t layer, PageKind kind, uint32_t page) {
  BF_CHECK(layer >= begin_ && layer < end() && page < room_.of(kind)) << "page " << page;
  const size_t index = layer - begin_;
  if (!has_pages(index, kind)) return {};
  const size_t bytes = views_[index].page_stride;
  return {views_[index].base + page * bytes, bytes};
}

std::span<const std::byte> KvMemory::layer_page(size_t layer, PageKind kind, uint32_t page) const {
  return const_cast<KvMemory*>(this)->layer_page(layer, kind, page);
}

void KvMemory::read_page(PageKind kind, uint32_t page, std::span<std::byte> into) const {
  BF_CHECK(page < room_.of(kind) && into.size() == page_size(kind)) << "page " << page;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (!has_pages(i, kind)) continue;
    const size_t bytes = views_[i].page_stride;
    std::memcpy(into.data(), views_[i].base + page * bytes, bytes);
    into = into.subspan(bytes);
  }
}

void KvMemory::write_page(PageKind kind, uint32_t page, std::span<const std::byte> from) {
  BF_CHECK(page < room_.of(kind) && from.size() == page_size(kind)) << "page " << page;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (!has_pages(i, kind)) continue;
    const size_t bytes = views_[i].page_stride;
    std::memcpy(views_[i].base + page * bytes, from.data(), bytes);
    from = from.subspan(bytes);
  }
}

graph::KvStep KvMemory::step(const PageTables& page_ids, std::span<const graph::KvRow> rows,
                             std::span<const graph::StateRun> state_runs) {
  const auto has = [&](PageKind kind, const graph::KvRow& row, size_t block) {
    const auto& tables = page_ids[static_cast<size_t>(kind)];
    return row.sequence < tables.size() && block < tables[row.sequence].size() &&
           tables[row.sequence][block] < room_.of(kind);
  };
  for (const graph::KvRow& row : rows) {
    const size_t block = row.position / kKvPage;
    BF_CHECK(has(PageKind::kFull, row, block))
        << "row at position " << row.position << " of sequence " << row.sequence << " has no page";
    for (size_t b = row.position + 1 > room_.window ? (row.position + 1 - room_.window) / kKvPage : 0;
         room_.window > 0 && b <= block; ++b)
      BF_CHECK(has(PageKind::kWindow, row, b)) << "row at position " << row.position << " of sequence "
                                               << row.sequence << " has no page in its window, block " << b;
  }
  return {.layers = views_, .page_ids = page_ids, .rows = rows, .state_runs = state_runs};
}

}  // namespace butterfly::model
