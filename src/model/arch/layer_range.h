// A contiguous part of a model's chain: embedding, blocks, head.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/cache/layer_state.h"
#include "model/formats/model_file.h"

namespace butterfly::model {

// Blocks [begin, end), with the embedding in front of block 0 and the head (with the norm before it) behind
// the last one, unless they are somewhere else. {0, 0} is the embedding alone, {layers, layers} the head.
struct LayerRange {
  size_t begin = 0;
  size_t end = 0;
  bool without_embedding = false;
  bool without_head = false;

  size_t blocks() const { return end - begin; }
  bool has_embedding() const { return begin == 0 && !without_embedding; }
  bool has_head(size_t layers) const { return end == layers && !without_head; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// "embedding, blocks 0 to 10", for people.
std::string to_string(const LayerRange& range, size_t layers);

// Throws Error kInvalidArgument for a range that a model of `layers` blocks does not have, or that is empty.
void check_range(const LayerRange& range, size_t layers);

// Whether no block from `block` on reads keys of one before it: a chain can be cut there.
bool may_cut(size_t block, std::span<const LayerState> states);
// Throws Error kInvalidArgument if a block of the range reads keys of one that is not in it.
void check_sources(const LayerRange& range, std::span<const LayerState> states);

// Pieces [begin, end) of the chain as planners count them: 0 is the embedding, 1 + i is block i, and the last
// one, layers + 1, is the head.
LayerRange range_of_pieces(size_t begin, size_t end, size_t layers);

// Whether loading the range reads the values of this tensor of the file. Small ones that every part needs
// (frequency factors) are in every range.
bool range_needs(const LayerRange& range, size_t layers, const ModelFile& file, std::string_view tensor);
// The names of those, in the file's order: what a node must have on disk.
std::vector<std::string> tensors_of_range(const LayerRange& range, size_t layers, const ModelFile& file);

}  // namespace butterfly::model
