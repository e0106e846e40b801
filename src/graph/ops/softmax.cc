// Softmax of every row.
#include "kernels/rows/softmax.h"

#include <cstring>

#include "graph/ops/grad_ops.h"
#include "graph/ops/rows.h"
#include "kernels/elementwise/activation_backward.h"

namespace butterfly::graph {
namespace {

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 12); }

void forward(const Node& node, const RunContext& run) {
  each_row(node, run, [&](const float* x, float* out, size_t cols) {
    if (out != x) std::memcpy(out, x, cols * sizeof(float));
    kernels::softmax(out, cols);
  });
}

// Inputs: the result and its gradient.
void forward_grad(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const float* y = run.f32(node.inputs[0]);
  const float* dy = run.f32(node.inputs[1]);
  float* dx = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      kernels::softmax_backward(y + row * cols, dy + row * cols, dx + row * cols, cols);
  });
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kSoftmaxOp;
extern const OpType kSoftmaxGradOp;
const OpType kSoftmaxOp{"softmax", same_as_first, cost, nullptr, 0, forward, nullptr, backward};
const OpType kSoftmaxGradOp{"softmax_grad", same_as_first, cost, nullptr, 1, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], b.graph().add(kSoftmaxGradOp, {node.outputs[0], b.of(node.outputs[0])}, nullptr,
                                      node.name + ".grad")[0]);
}

}  // namespace

ValueId softmax(Graph& g, ValueId x, std::string name) {
  return g.add(kSoftmaxOp, {x}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
