// Layer normalisation of every row.
#include "kernels/layer_norm.h"
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

}  // namespace

extern const OpType kLayerNormOp;
const OpType kLayerNormOp{"layer_norm", infer, cost, nullptr, 0, forward};

ValueId layer_norm(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, float eps,
                   std::string name) {
  return g.add(kLayerNormOp, {x}, std::make_shared<Attrs>(Attrs{&weight, &bias, eps}), std::move(name))[0];
}

}  // namespace butterfly::graph
