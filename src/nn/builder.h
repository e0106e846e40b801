// Building a graph from layers. Remembers which quantised forms of a value exist, so that layers that share
// an input share them.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "graph/ops.h"

namespace butterfly::nn {

using graph::Graph;
using graph::Parameter;
using graph::ValueId;

// Lives while one graph is being built.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}
  Graph& graph() { return graph_; }

  // x as rows that weights of this kind multiply: x itself, or its quantised form, made once.
  ValueId rows_for(ValueId x, kernels::ActKind kind);

 private:
  Graph& graph_;
  std::map<std::pair<uint32_t, kernels::ActKind>, ValueId> forms_;
};

}  // namespace butterfly::nn
