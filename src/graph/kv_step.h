// What attention ops see of the key/value cache during one run: where pages are, and which row belongs where.
#pragma once
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

// Borrowed for the run. Rows of one sequence stand in order of position; pages for all positions exist.
struct KvStep {
  kernels::KvLayout layout;
  std::span<std::byte* const> layers;  // page p of layer l and KV head h is at layers[l] + p * page_stride +
                                       // h * layout.page_bytes()
  size_t page_stride = 0;
  size_t kv_heads = 0;
  std::span<const std::span<const uint32_t>> page_ids;  // by sequence
  std::span<const KvRow> rows;

  std::byte* head_base(size_t layer, size_t head) const { return layers[layer] + head * layout.page_bytes(); }
};

}  // namespace butterfly::graph
