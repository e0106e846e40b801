// Ops that treat every row alone: fn(x, out, cols) for each row of the first input and output.
#pragma once
#include "graph/ops/op_util.h"

namespace butterfly::graph {

template <typename F>
void each_row(const Node& node, const RunContext& run, F&& fn) {
  const ValueType& type = run.type(node.inputs[0]);
  const float* x = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) fn(x + row * cols, out + row * cols, cols);
  });
}

}  // namespace butterfly::graph
