// What the trainer needs of a network, whatever it is: a graph for a micro-batch, and its weights.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graph/ops.h"
#include "tensor/tensor.h"

namespace butterfly::train {

// Items that go through the network together. Borrowed for the call.
struct MicroBatch {
  std::span<const int32_t> tokens;   // transformers: items * length, with document_start() of batch.h
  std::span<const float> pixels;     // image networks: items * planes of channels
  std::span<const int32_t> targets;  // tokens: one each; images: one per item. Negative: takes no part
  size_t counted = 0;                // what the loss is the mean of; 0: the targets that take part
};

// Inputs and results of a built graph; invalid where a network has no such thing.
struct BuiltNetwork {
  graph::ValueId tokens;  // [items * length] i32
  // Of a part of a network (a stage of a pipeline): rows that come in, rows of the embedding's table, and
  // rows that go out.
  graph::ValueId hidden, embedded, output;
  graph::ValueId positions;  // the same, 0 .. length - 1 for each item
  graph::ValueId pixels;     // [items, channels, height, width]
  graph::ValueId targets;    // i32
  graph::ValueId factor;     // [1]
  graph::ValueId dropout_key;
  graph::Loss loss;
  graph::ValueId shown = {};  // reported instead of the loss; invalid: that
  size_t length = 1;          // targets per item
  size_t sequences = 1;       // that an item consists of, one behind the other
};

// Owns its weights, which the trainer changes in place. Graphs may be built by several threads at once;
// nobody reads weights while they are changed.
class TrainableNetwork {
 public:
  virtual ~TrainableNetwork() = default;
  // `training`: with dropout, batch statistics and room for gradients; else for evaluation.
  virtual BuiltNetwork build(graph::Graph& graph, size_t items, bool training) const = 0;
  // Items of sequences may be run without the end of each that nothing is learned from, with the same bits:
  // in steps of so many tokens. 0: items are always whole.
  virtual size_t length_unit() const { return 0; }
  // The same graph for sequences of `length`, a multiple of the unit.
  virtual BuiltNetwork build_shorter(graph::Graph& graph, size_t items, bool training,
                                     size_t /*length*/) const {
    return build(graph, items, training);
  }
  // All weights by name, whole, for checkpoints and export.
  virtual const std::map<std::string, Tensor>& weights() const = 0;
  // Of what is read and never changed (a frozen base), in memory.
  virtual uint64_t frozen_bytes() const { return 0; }
};

}  // namespace butterfly::train
