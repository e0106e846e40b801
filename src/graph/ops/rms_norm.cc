// Root-mean-square normalisation of every row, or of every head in it.
#include "kernels/norm/rms_norm.h"
#include "graph/ops/grad_ops.h"
#include "graph/ops/rows.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;
  float eps;
  size_t groups;
  size_t group() const { return groups == 0 ? 0 : static_cast<size_t>(weight->value.count()) / groups; }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const auto weights = static_cast<size_t>(attrs.weight->value.count());
  const size_t cols = g.type(node.inputs[0]).cols();
  if (weights == 0 || cols % weights != 0 || attrs.group() * attrs.groups != weights)
    expect_equal(node, "weights", cols, weights);
  return same_as_first(g, node);
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  Cost cost = elementwise_cost(g, node, 4);  // square, add, two products
  cost.weight_bytes = node.attrs<Attrs>().weight->value.bytes();
  return cost;
}

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const float* weight = attrs.weight->value.data<float>();
  const auto weights = static_cast<size_t>(attrs.weight->value.count());
  const size_t group = attrs.group();
  each_row(node, run, [&](const float* x, float* out, size_t cols) {
    for (size_t at = 0; at < cols; at += group)
      kernels::rms_norm(x + at, weight + at % weights, attrs.eps, out + at, group);
  });
}

std::vector<const Parameter*> parameters(const Node& node) { return {node.attrs<Attrs>().weight}; }

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const NormGradients gradients =
      rms_norm_grad(b.graph(), node.inputs[0], b.of(node.outputs[0]), *attrs.weight, attrs.eps,
                    attrs.weight->name + ".grad", attrs.groups);
  if (gradients.dweight.valid()) b.add(*attrs.weight, gradients.dweight);
  b.add(node.inputs[0], gradients.dx);
}

}  // namespace

extern const OpType kRmsNormOp;
const OpType kRmsNormOp{"rms_norm", infer, cost, nullptr, 0, forward, parameters, backward};

ValueId rms_norm(Graph& g, ValueId x, const Parameter& weight, float eps, std::string name, size_t groups) {
  return g.add(kRmsNormOp, {x}, std::make_shared<Attrs>(Attrs{&weight, eps, groups}), std::move(name))[0];
}

}  // namespace butterfly::graph
