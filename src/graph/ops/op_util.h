// Small checks and sums that several ops share.
#pragma once
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "graph/executor.h"
#include "graph/graph.h"
#include "graph/ops.h"

namespace butterfly::graph {

// Throws Error: "[rms_norm] blk.0.attn_norm: expected 64 columns, found 32".
inline void expect_equal(const Node& node, std::string_view what, size_t expected, size_t found) {
  if (expected != found)
    fail(Errc::kInvalidArgument, "[{}] {}: expected {} {}, found {}", node.op->name, node.name, expected,
         what, found);
}

inline void expect_elem(const Graph& g, const Node& node, ValueId value, Elem elem) {
  if (g.type(value).elem != elem)
    fail(Errc::kInvalidArgument, "[{}] {}: input {} has another element type", node.op->name, node.name,
         g.values()[value.index].name);
}

// The form of rows that weights of this kind multiply.
inline Elem elem_of(kernels::ActKind kind) {
  // In the order of the enum.
  constexpr Elem kElems[] = {Elem::kF32, Elem::kQ8x32, Elem::kQ8x64, Elem::kQ8x128, Elem::kQ8x256};
  return kElems[static_cast<size_t>(kind)];
}

inline ValueType floats(size_t rows, size_t cols) {
  return {Elem::kF32, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)}};
}

// Bytes of a node's inputs and outputs.
inline uint64_t value_bytes(const Graph& g, const Node& node) {
  uint64_t bytes = 0;
  for (ValueId v : node.inputs) bytes += g.type(v).bytes();
  for (ValueId v : node.outputs) bytes += g.type(v).bytes();
  return bytes;
}

// Cost of `flops` per output value.
inline Cost elementwise_cost(const Graph& g, const Node& node, uint64_t flops_per_value) {
  const ValueType& out = g.type(node.outputs[0]);
  return {.flops = flops_per_value * out.rows() * out.cols(), .activation_bytes = value_bytes(g, node)};
}

// The output has the type of the first input.
inline std::vector<ValueType> same_as_first(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  return {g.type(node.inputs[0])};
}

}  // namespace butterfly::graph
