// Layer normalisation of every row.
#include "kernels/norm/layer_norm.h"
#include "graph/ops/grad_ops.h"
#include "graph/ops/rows.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;
  const Parameter* bias;  // may be empty
  float eps;
  const float* bias_data() const { return *bias ? bias->value.data<float>() : nullptr; }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const size_t cols = g.type(node.inputs[0]).cols();
  expect_equal(node, "weights", cols, static_cast<size_t>(attrs.weight->value.count()));
  if (*attrs.bias) expect_equal(node, "bias values", cols, static_cast<size_t>(attrs.bias->value.count()));
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const Attrs& attrs = node.attrs<Attrs>();
  Cost cost = elementwise_cost(g, node, 7);  // sum; difference, square, sum; two products and a sum
  cost.weight_bytes = attrs.weight->value.bytes() + (*attrs.bias ? attrs.bias->value.bytes() : 0);
  return cost;
}

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const float* weight = attrs.weight->value.data<float>();
  const float* bias = attrs.bias_data();
  each_row(node, run, [&](const float* x, float* out, size_t cols) {
    kernels::layer_norm(x, weight, bias, attrs.eps, out, cols);
  });
}

std::vector<const Parameter*> parameters(const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  if (!*attrs.bias) return {attrs.weight};
  return {attrs.weight, attrs.bias};
}

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const bool with_bias = *attrs.bias && b.wants(*attrs.bias);
  const NormGradients gradients =
      layer_norm_grad(b.graph(), node.inputs[0], b.of(node.outputs[0]), *attrs.weight, with_bias, attrs.eps,
                      attrs.weight->name + ".grad");
  if (gradients.dweight.valid()) b.add(*attrs.weight, gradients.dweight);
  if (gradients.dbias.valid()) b.add(*attrs.bias, gradients.dbias);
  b.add(node.inputs[0], gradients.dx);
}

}  // namespace

extern const OpType kLayerNormOp;
const OpType kLayerNormOp{"layer_norm", infer, cost, nullptr, 0, forward, parameters, backward};

ValueId layer_norm(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, float eps,
                   std::string name) {
  return g.add(kLayerNormOp, {x}, std::make_shared<Attrs>(Attrs{&weight, &bias, eps}), std::move(name))[0];
}

}  // namespace butterfly::graph
