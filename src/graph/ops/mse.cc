// Mean squared error as a loss: scale * the sum of (x - target)^2.
#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/rows/reduce.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kF32);
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "rows", x.rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns", x.cols(), g.type(node.inputs[1]).cols());
  expect_equal(node, "scales", 1, g.type(node.inputs[2]).rows());
  return {{Elem::kF32, {1}}, x, {Elem::kF32, {static_cast<int64_t>(x.rows())}}};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  return {.flops = 4 * x.rows() * x.cols(), .activation_bytes = value_bytes(g, node)};
}

// The loss, its gradient, and the sum of squares of each row.
void forward(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const float* x = run.f32(node.inputs[0]);
  const float* target = run.f32(node.inputs[1]);
  const float factor = run.f32(node.inputs[2])[0];
  float* dx = run.f32(node.outputs[1]);
  float* squares = run.f32(node.outputs[2]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      float* to = dx + row * cols;
      kernels::sub(x + row * cols, target + row * cols, to, cols);
      squares[row] = kernels::sum_squares(to, cols);
      kernels::scale(to, 2 * factor, to, cols);
    }
  });
  run.f32(node.outputs[0])[0] = kernels::sum(squares, type.rows()) * factor;
}

void backward(GradientBuilder& b, const Node& node) {
  b.expect_root(node, node.outputs[0]);
  b.add(node.inputs[0], node.outputs[1]);
}

}  // namespace

extern const OpType kMseOp;
const OpType kMseOp{"mse", infer, cost, nullptr, -1, forward, nullptr, backward};

ValueId mse(Graph& g, ValueId x, ValueId target, ValueId factor, std::string name) {
  return g.add(kMseOp, {x, target, factor}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
