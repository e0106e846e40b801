// Building a graph from layers, for runs over a cache or for training. Remembers which quantised forms of a
// value exist, so that layers that share an input share them.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "graph/ops.h"
#include "graph/row_adapters.h"

namespace butterfly::nn {

using graph::Graph;
using graph::Parameter;
using graph::ValueId;

// Rows are whole sequences, one behind the other: attention needs no cache.
struct Training {
  size_t length = 0;          // of a sequence
  float dropout = 0;          // rate, of what is added to the residual stream
  float adapter_dropout = 0;  // rate, of what adapters read
  ValueId key = {};           // [2] i32: what dropout draws from; only with a rate
  ValueId positions = {};     // [rows] i32: documents of a sequence begin where they are 0
};

// Lives while one graph is being built. What a layer's weights are (packed, or plain floats that may be
// trained) says which product it becomes; the rest of the mode is here. One thread.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  Builder(Graph& graph, const Training& training) : graph_(graph), training_(training) {}
  Graph& graph() { return graph_; }

  // Layers leave their adapters out from now on, or not: what the model was before it learned.
  void use_adapters(bool use) { adapters_ = use; }
  bool adapters() const { return adapters_; }

  // What rows that layers read from now on name; without a rank: nothing.
  void set_row_adapters(const graph::RowAdapters& adapters) { row_adapters_ = adapters; }
  const graph::RowAdapters& row_adapters() const { return row_adapters_; }

  // Over the cache of the run, or within sequences when training. Without keys: over those of layer `source`,
  // which was built before.
  ValueId attention(ValueId q, ValueId k, ValueId v, const graph::AttentionShape& shape, std::string name,
                    size_t source = 0);
  // The same of recurrent operations; places of states are not read when training.
  ValueId causal_conv(ValueId x, const Parameter& weight, const Parameter& bias,
                      const graph::StatePlace& place, bool silu, std::string name);
  ValueId gated_delta(ValueId qkv, ValueId alpha, ValueId beta, const graph::GatedDeltaShape& shape,
                      std::string name);
  ValueId selective_state(ValueId rows, ValueId steps, const graph::SelectiveStateShape& shape,
                          std::string name);
  // x itself unless training with a rate. What is drawn depends on the place in the whole model, not in this
  // graph: see at_block().
  ValueId dropout(ValueId x, const std::string& name);
  // The same for what an adapter reads.
  ValueId adapter_dropout(ValueId x, const std::string& name);
  // What follows belongs to this block of the model.
  void at_block(size_t block) {
    dropouts_ = 1 + kDropoutsPerBlock * static_cast<uint32_t>(block);
    adapter_dropouts_ = kAdapterDropouts + kAdaptersPerBlock * static_cast<uint32_t>(block);
  }

  // x as rows that weights of this kind multiply: x itself, or its quantised form, made once.
  ValueId rows_for(ValueId x, kernels::ActKind kind);

 private:
  Graph& graph_;
  Training training_;
  bool adapters_ = true;
  graph::RowAdapters row_adapters_;
  static constexpr uint32_t kDropoutsPerBlock = 2;  // attention's, and the feed-forward layer's
  static constexpr uint32_t kAdapterDropouts = 1 << 20, kAdaptersPerBlock = 64;  // streams of their own
  uint32_t dropouts_ = 0;  // the embedding's is the first
  uint32_t adapter_dropouts_ = kAdapterDropouts;
  std::map<std::pair<uint32_t, kernels::ActKind>, ValueId> forms_;
  std::map<size_t, std::pair<ValueId, ValueId>> keys_;  // and values, by layer, when training
};

}  // namespace butterfly::nn
