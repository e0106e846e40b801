// a * b, element by element.
#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_equal(node, "rows", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns", g.type(node.inputs[0]).cols(), g.type(node.inputs[1]).cols());
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 1); }

void forward(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.outputs[0]);
  const float* a = run.f32(node.inputs[0]);
  const float* b = run.f32(node.inputs[1]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    kernels::mul(a + begin * cols, b + begin * cols, out + begin * cols, (end - begin) * cols);
  });
}

void backward(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.of(node.outputs[0]);
  for (size_t i = 0; i < 2; ++i)
    if (b.wants(node.inputs[i]))
      b.add(node.inputs[i], mul(b.graph(), dy, node.inputs[1 - i], node.name + ".grad"));
}

}  // namespace

extern const OpType kMulOp;
const OpType kMulOp{"mul", infer, cost, nullptr, 0, forward, nullptr, backward};

ValueId mul(Graph& g, ValueId a, ValueId b, std::string name) {
  return g.add(kMulOp, {a, b}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
