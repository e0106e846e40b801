// What ops see of the state of their layers during one run: where pages are, and which row belongs where.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention/kv_page.h"

namespace butterfly::graph {

// One row of the batch: the sequence it belongs to and its position there.
struct KvRow {
  uint32_t sequence;  // index into KvStep::page_ids
  uint32_t position;
};

// Pages are numbered apart for layers that keep all positions, a window of them, or a recurrent state. A
// block is kKvPage positions; a sequence has a page of a kind for each block that the kind still needs.
enum class PageKind : uint8_t { kFull, kWindow, kState };
inline constexpr size_t kPageKinds = 3;
inline constexpr uint32_t kNoPage = UINT32_MAX;

// The memory of one layer.
struct KvLayer {
  std::byte* base = nullptr;  // page p begins at base + p * page_stride
  size_t page_stride = 0;
  PageKind kind = PageKind::kFull;
  // Keys and values: KV head h of a page is h * layout.page_bytes() behind its begin.
  kernels::KvLayout layout = {};
  size_t kv_heads = 0;
  // A recurrent state: floats. Rows that were only guessed wait here, [sequence][kGuessesMax][guess_floats].
  float* guesses = nullptr;
  size_t guess_floats = 0;

  std::byte* head_base(size_t head) const { return base + head * layout.page_bytes(); }
  float* state(uint32_t page) const { return reinterpret_cast<float*>(base + page * page_stride); }
};

// Guesses of one sequence in one step, at most, where a layer's state cannot go back.
inline constexpr size_t kGuessesMax = 8;

// Rows [first_row, first_row + rows) of one sequence as recurrent layers see them. The state of the page that
// `from` names has seen the positions before rows[first_row].position - replayed; that many rows, right
// guesses of the last step, come first. Of the new rows the first `certain` change the state; it is written
// to the page of every block that they end, and to that of the last one. The others are guesses.
struct StateRun {
  uint32_t sequence = 0;
  uint32_t first_row = 0, rows = 0;
  uint32_t position = 0;  // of the first row
  uint32_t replayed = 0;
  uint32_t certain = 0;
  uint32_t from = kNoPage;  // kNoPage: nothing was seen yet

  uint32_t seen() const { return position - replayed; }  // positions in the state that it begins with
};

struct AdapterLayers;  // row_adapters.h

// Borrowed for the run. Rows of one sequence stand in order of position; pages for all positions that a row
// sees exist.
struct KvStep {
  std::span<const KvLayer> layers;
  // By kind and sequence: the page of each block.
  std::array<std::span<const std::span<const uint32_t>>, kPageKinds> page_ids;
  std::span<const KvRow> rows;
  std::span<const StateRun> state_runs;  // in the order of the rows; empty without recurrent layers
  // That rows may name, each by its index here; empty: none does.
  std::span<const AdapterLayers* const> adapters = {};

  std::span<const uint32_t> pages(const KvLayer& layer, uint32_t sequence) const {
    return page_ids[static_cast<size_t>(layer.kind)][sequence];
  }
};

}  // namespace butterfly::graph
