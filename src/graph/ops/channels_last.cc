// Planes of channels as channels of positions: what files hold, and what convolutions read.
#include "graph/ops/op_util.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const Shape& x = g.type(node.inputs[0]).shape;
  expect_equal(node, "axes of the image batch", 4, x.rank());
  return {{Elem::kF32, {x[0], x[2], x[3], x[1]}}};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = value_bytes(g, node)};
}

void forward(const Node& node, const RunContext& run) {
  const Shape& shape = run.type(node.inputs[0]).shape;
  const auto channels = static_cast<size_t>(shape[1]), positions = static_cast<size_t>(shape[2] * shape[3]);
  const float* from = run.f32(node.inputs[0]);
  float* to = run.f32(node.outputs[0]);
  run.for_rows(static_cast<size_t>(shape[0]), channels * positions, [&](size_t begin, size_t end) {
    for (size_t item = begin; item < end; ++item)
      for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0; p < positions; ++p)
          to[(item * positions + p) * channels + c] = from[(item * channels + c) * positions + p];
  });
}

}  // namespace

extern const OpType kChannelsLastOp;
const OpType kChannelsLastOp{"channels_last", infer, cost, nullptr, -1, forward};

ValueId channels_last(Graph& g, ValueId x, std::string name) {
  return g.add(kChannelsLastOp, {x}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
