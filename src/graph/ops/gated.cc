// Gated activations: silu(gate) * up, clamped or not, and gelu(gate) * up.
#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/activation.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_equal(node, "columns", g.type(node.inputs[0]).cols(), g.type(node.inputs[1]).cols());
  return same_as_first(g, node);
}

// exp, division and three products: counted as 8 flops a value; tanh and its cubic as 14.
Cost cost_swiglu(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 8);
}
Cost cost_geglu(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 14);
}

template <void (*kernel)(const float*, const float*, float*, size_t)>
void forward(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.outputs[0]);
  const float* gate = run.f32(node.inputs[0]);
  const float* up = run.f32(node.inputs[1]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    kernel(gate + begin * cols, up + begin * cols, out + begin * cols, (end - begin) * cols);
  });
}

template <GatedGradients (*grad)(Graph&, ValueId, ValueId, ValueId, std::string)>
void backward(GradientBuilder& b, const Node& node) {
  const GatedGradients gradients =
      grad(b.graph(), node.inputs[0], node.inputs[1], b.of(node.outputs[0]), node.name + ".grad");
  b.add(node.inputs[0], gradients.dgate);
  b.add(node.inputs[1], gradients.dup);
}

}  // namespace

extern const OpType kSwigluOp;
extern const OpType kGegluOp;
extern const OpType kSwigluClampedOp;
const OpType kSwigluOp{
    "swiglu", infer, cost_swiglu, nullptr, 0, forward<kernels::swiglu>, nullptr, backward<swiglu_grad>};
const OpType kGegluOp{
    "geglu", infer, cost_geglu, nullptr, 0, forward<kernels::geglu>, nullptr, backward<geglu_grad>};

const OpType kSwigluClampedOp{"swiglu_clamped",
                              infer,
                              cost_swiglu,
                              nullptr,
                              0,
                              forward<kernels::swiglu_clamped>,
                              nullptr,
                              backward<swiglu_clamped_grad>};

ValueId swiglu(Graph& g, ValueId gate, ValueId up, std::string name) {
  return g.add(kSwigluOp, {gate, up}, nullptr, std::move(name))[0];
}

ValueId swiglu_clamped(Graph& g, ValueId gate, ValueId up, std::string name) {
  return g.add(kSwigluClampedOp, {gate, up}, nullptr, std::move(name))[0];
}

ValueId geglu(Graph& g, ValueId gate, ValueId up, std::string name) {
  return g.add(kGegluOp, {gate, up}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
