// The gradient of rows through frozen packed weights of any element type: dX = dY W
// (kernels/gemm/matmul_dx.h).
#include "kernels/gemm/matmul_dx.h"

#include <cstring>

#include "graph/ops/grad_ops.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;
};

// Inputs: dy, or the sum so far and dy.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  const ValueType& dy = g.type(node.inputs.back());
  expect_equal(node, "columns", weight.rows(), dy.cols());
  return {floats(dy.rows(), weight.cols())};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  return {.flops = 2 * g.type(node.inputs.back()).rows() * weight.rows() * weight.cols(),
          .weight_bytes = weight.packed.bytes(),
          .activation_bytes = value_bytes(g, node)};
}

void forward(const Node& node, const RunContext& run) {
  const kernels::PackedMatrix& weight = node.attrs<Attrs>().weight->packed;
  const ValueType& dy = run.type(node.inputs.back());
  float* dx = run.f32(node.outputs[0]);
  const bool accumulate = node.inputs.size() == 2;
  if (accumulate && run.f32(node.inputs[0]) != dx)
    std::memcpy(dx, run.f32(node.inputs[0]), run.type(node.inputs[0]).bytes());
  kernels::matmul_dx(weight, run.f32(node.inputs.back()), dy.cols(), dy.rows(), dx, weight.cols(), accumulate,
                     run.pool());
}

}  // namespace

extern const OpType kMatmulDxOp;
extern const OpType kMatmulDxAddOp;
const OpType kMatmulDxOp{"matmul_dx", infer, cost, nullptr, -1, forward};
const OpType kMatmulDxAddOp{"matmul_dx_add", infer, cost, nullptr, 0, forward};

ValueId matmul_dx(Graph& g, ValueId dy, const Parameter& weight, ValueId sum, std::string name) {
  auto attrs = std::make_shared<Attrs>(Attrs{&weight});
  if (!sum.valid()) return g.add(kMatmulDxOp, {dy}, std::move(attrs), std::move(name))[0];
  return g.add(kMatmulDxAddOp, {sum, dy}, std::move(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
