// Batch normalisation of channels, the last axis: with the batch's own mean and variance while training, with
// the running ones otherwise.
//
// The running ones are parameters marked `statistic`: their "gradient" is the batch's value, which the
// trainer averages over the micro-batches of a step by the same tree as gradients, so workers do not show.
#include "graph/ops/grad_ops.h"
#include "kernels/norm/norm_backward.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  BatchNormParameters parameters;
  float eps;
  bool training;
};

ValueType channels_type(const Attrs& attrs) {
  return {Elem::kF32, {static_cast<int64_t>(attrs.parameters.weight->value.count())}};
}

kernels::BatchNorm norm_of(const Attrs& attrs, const ValueType& x) {
  const auto channels = static_cast<size_t>(attrs.parameters.weight->value.count());
  return {.rows = x.rows() * x.cols() / channels,
          .channels = channels,
          .eps = attrs.eps,
          .weight = attrs.parameters.weight->value.data<float>(),
          .bias = attrs.parameters.bias->value.data<float>()};
}

// Training: y, mean and variance of the batch.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  for (const Parameter* p :
       {attrs.parameters.weight, attrs.parameters.bias, attrs.parameters.mean, attrs.parameters.variance})
    expect_equal(node, "channels", static_cast<size_t>(x.shape.back()),
                 static_cast<size_t>(p->value.count()));
  if (!attrs.training) return {x};
  return {x, channels_type(attrs), channels_type(attrs)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 7); }

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const kernels::BatchNorm norm = norm_of(attrs, run.type(node.inputs[0]));
  const float* x = run.f32(node.inputs[0]);
  float* y = run.f32(node.outputs[0]);
  if (attrs.training) {
    kernels::batch_norm_forward(norm, x, run.f32(node.outputs[1]), run.f32(node.outputs[2]), y, run.pool());
  } else {
    kernels::batch_norm_apply(norm, x, attrs.parameters.mean->value.data<float>(),
                              attrs.parameters.variance->value.data<float>(), y, run.pool());
  }
}

std::vector<const Parameter*> parameters(const Node& node) {
  const BatchNormParameters& p = node.attrs<Attrs>().parameters;
  return {p.weight, p.bias, p.mean, p.variance};
}

// Inputs: x, mean, variance, dy.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  return {g.type(node.inputs[0]), channels_type(attrs), channels_type(attrs)};
}

Cost cost_grad(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 12); }

void forward_grad(const Node& node, const RunContext& run) {
  kernels::batch_norm_backward(norm_of(node.attrs<Attrs>(), run.type(node.inputs[0])),
                               run.f32(node.inputs[0]), run.f32(node.inputs[1]), run.f32(node.inputs[2]),
                               run.f32(node.inputs[3]), run.f32(node.outputs[0]), run.f32(node.outputs[1]),
                               run.f32(node.outputs[2]), false, run.pool());
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kBatchNormOp;
extern const OpType kBatchNormGradOp;
const OpType kBatchNormOp{"batch_norm", infer, cost, nullptr, -1, forward, parameters, backward};
const OpType kBatchNormGradOp{"batch_norm_grad", infer_grad, cost_grad, nullptr, 3, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const BatchNormParameters& p = attrs.parameters;
  if (!attrs.training)
    fail(Errc::kUnsupported, "[{}] {}: built for evaluation, without gradients", node.op->name, node.name);
  const auto out = b.graph().add(kBatchNormGradOp,
                                 {node.inputs[0], node.outputs[1], node.outputs[2], b.of(node.outputs[0])},
                                 node.attributes, node.name + ".grad");
  if (b.wants(*p.weight)) b.add(*p.weight, out[1]);
  if (b.wants(*p.bias)) b.add(*p.bias, out[2]);
  if (b.wants(*p.mean)) b.add(*p.mean, node.outputs[1]);
  if (b.wants(*p.variance)) b.add(*p.variance, node.outputs[2]);
  b.add(node.inputs[0], out[0]);
}

}  // namespace

ValueId batch_norm(Graph& g, ValueId x, const BatchNormParameters& parameters, float eps, bool training,
                   std::string name) {
  return g.add(kBatchNormOp, {x}, std::make_shared<Attrs>(Attrs{parameters, eps, training}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
