// Backward of the norms, and sums of columns: what their weights and all biases get.
#include "graph/ops/grad_ops.h"
#include "kernels/norm/norm_backward.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;
  float eps;
  bool with_weight, with_bias;
  size_t groups = 1;  // of the weights: each normalised alone
  size_t weights() const { return static_cast<size_t>(weight->value.count()); }
};

// dx; then, as far as wanted, dweight and dbias.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  std::vector<ValueType> outputs = {g.type(node.inputs[0])};
  for (const bool wanted : {attrs.with_weight, attrs.with_bias})
    if (wanted) outputs.push_back({Elem::kF32, {static_cast<int64_t>(attrs.weights())}});
  return outputs;
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  Cost cost = elementwise_cost(g, node, 12);
  cost.weight_bytes = node.attrs<Attrs>().weight->value.bytes();
  return cost;
}

// Heads of a row are rows of their own.
template <void (*kernel)(const kernels::NormGradient&, ThreadPool&)>
void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const size_t weights = attrs.weights(), cols = weights / attrs.groups;
  for (size_t at = 0; at < weights; at += cols) {
    kernels::NormGradient job{.rows = type.rows() * type.cols() / weights,
                              .cols = cols,
                              .stride = weights,
                              .eps = attrs.eps,
                              .x = run.f32(node.inputs[0]) + at,
                              .weight = attrs.weight->value.data<float>() + at,
                              .dy = run.f32(node.inputs[1]) + at,
                              .dx = run.f32(node.outputs[0]) + at};
    if (attrs.with_weight) job.dweight = run.f32(node.outputs[1]) + at;
    if (attrs.with_bias) job.dbias = run.f32(node.outputs.back()) + at;
    kernel(job, run.pool());
  }
}

NormGradients add_node(Graph& g, const OpType& op, ValueId x, ValueId dy, const Attrs& attrs,
                       std::string name) {
  const auto out = g.add(op, {x, dy}, std::make_shared<Attrs>(attrs), std::move(name));
  NormGradients gradients{.dx = out[0], .dweight = {}, .dbias = {}};
  if (attrs.with_weight) gradients.dweight = out[1];
  if (attrs.with_bias) gradients.dbias = out.back();
  return gradients;
}

std::vector<ValueType> infer_sum(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  return {{Elem::kF32, {static_cast<int64_t>(g.type(node.inputs[0]).cols())}}};
}

Cost cost_sum(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  return {.flops = x.rows() * x.cols(), .activation_bytes = value_bytes(g, node)};
}

void forward_sum(const Node& node, const RunContext& run) {
  const ValueType& x = run.type(node.inputs[0]);
  kernels::column_sums(run.f32(node.inputs[0]), x.rows(), x.cols(), x.cols(), false, run.f32(node.outputs[0]),
                       run.pool());
}

}  // namespace

extern const OpType kRmsNormGradOp;
extern const OpType kLayerNormGradOp;
extern const OpType kColumnSumOp;
// In place of the gradient of the result.
const OpType kRmsNormGradOp{"rms_norm_grad", infer, cost, nullptr, 1, forward<kernels::rms_norm_backward>};
const OpType kLayerNormGradOp{"layer_norm_grad", infer, cost,
                              nullptr,           1,     forward<kernels::layer_norm_backward>};
const OpType kColumnSumOp{"column_sum", infer_sum, cost_sum, nullptr, -1, forward_sum};

NormGradients rms_norm_grad(Graph& g, ValueId x, ValueId dy, const Parameter& weight, float eps,
                            std::string name, size_t groups) {
  return add_node(g, kRmsNormGradOp, x, dy, {&weight, eps, weight.trainable, false, groups}, std::move(name));
}

NormGradients layer_norm_grad(Graph& g, ValueId x, ValueId dy, const Parameter& weight, bool with_bias,
                              float eps, std::string name) {
  return add_node(g, kLayerNormGradOp, x, dy, {&weight, eps, weight.trainable, with_bias}, std::move(name));
}

ValueId column_sum(Graph& g, ValueId x, std::string name) {
  return g.add(kColumnSumOp, {x}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
