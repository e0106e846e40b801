// Some neighbouring columns of every row.
#include <algorithm>

#include "base/error.h"
#include "graph/ops/op_util.h"

namespace butterfly::graph {
namespace {

// Columns [begin, begin + count) of every row.
struct Attrs {
  size_t begin, count;
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& [begin, count] = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  if (begin > x.cols() || count > x.cols() - begin)
    fail(Errc::kInvalidArgument, "[{}] {}: columns {} to {} of {}", node.op->name, node.name, begin,
         begin + count, x.cols());
  return {floats(x.rows(), count)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward(const Node& node, const RunContext& run) {
  const auto& [begin, count] = node.attrs<Attrs>();
  const ValueType& x = run.type(node.inputs[0]);
  const float* from = run.f32(node.inputs[0]);
  float* to = run.f32(node.outputs[0]);
  for (size_t row = 0; row < x.rows(); ++row)
    std::copy_n(from + row * x.cols() + begin, count, to + row * count);
}

}  // namespace

extern const OpType kColumnsOp;
const OpType kColumnsOp{"columns", infer, cost, nullptr, -1, forward};

ValueId columns(Graph& g, ValueId x, size_t begin, size_t count, std::string name) {
  return g.add(kColumnsOp, {x}, std::make_shared<Attrs>(Attrs{begin, count}), std::move(name))[0];
}

}  // namespace butterfly::graph
