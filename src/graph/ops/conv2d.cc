// Convolutions of images [items, height, width, channels], and the gradients of their data and weights.
#include "kernels/conv2d/conv2d.h"
#include "graph/ops/grad_ops.h"
#include "kernels/gemm/epilogue.h"

namespace butterfly::graph {
namespace {

using kernels::Conv2d;
using kernels::FusedActivation;

struct Attrs {
  Conv2d conv;  // its batch is the input's
  const Parameter* weight;
  const Parameter* bias;  // null: none
  bool relu;
};

ValueType image_type(size_t items, size_t height, size_t width, size_t channels) {
  return {Elem::kF32,
          {static_cast<int64_t>(items), static_cast<int64_t>(height), static_cast<int64_t>(width),
           static_cast<int64_t>(channels)}};
}

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const Conv2d& conv = attrs.conv;
  const Shape& x = g.type(node.inputs[0]).shape;
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "axes of the image batch", 4, x.rank());
  expect_equal(node, "channels", conv.in_c, static_cast<size_t>(x[3]));
  expect_equal(node, "weights", conv.w_count(), static_cast<size_t>(attrs.weight->value.count()));
  if (attrs.bias != nullptr)
    expect_equal(node, "bias values", conv.out_c, static_cast<size_t>(attrs.bias->value.count()));
  if (conv.out_h() == 0 || conv.out_w() == 0)
    fail(Errc::kInvalidArgument,
         "[{}] {}: a kernel that reaches over {} x {} does not fit an image of {} x {}", node.op->name,
         node.name, conv.reach_h() + 1, conv.reach_w() + 1, x[1], x[2]);
  return {image_type(conv.batch, conv.out_h(), conv.out_w(), conv.out_c)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const Attrs& attrs = node.attrs<Attrs>();
  return {.flops = static_cast<uint64_t>(attrs.conv.flops()),
          .weight_bytes = attrs.weight->value.bytes(),
          .activation_bytes = value_bytes(g, node)};
}

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  kernels::Epilogue epilogue;
  if (attrs.bias != nullptr) epilogue.bias = attrs.bias->value.data<float>();
  if (attrs.relu) epilogue.activation = FusedActivation::kRelu;
  kernels::conv2d_forward(attrs.conv, run.f32(node.inputs[0]), attrs.weight->value.data<float>(), epilogue,
                          run.f32(node.outputs[0]), run.pool());
}

std::vector<const Parameter*> parameters(const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  if (attrs.bias == nullptr) return {attrs.weight};
  return {attrs.weight, attrs.bias};
}

std::vector<ValueType> infer_dx(const Graph&, const Node& node) {
  const Conv2d& conv = node.attrs<Attrs>().conv;
  return {image_type(conv.batch, conv.in_h, conv.in_w, conv.in_c)};
}

void forward_dx(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  kernels::conv2d_backward_data(attrs.conv, run.f32(node.inputs[0]), attrs.weight->value.data<float>(),
                                run.f32(node.outputs[0]), run.pool());
}

// dw, and dbias where there is a bias that learns.
std::vector<ValueType> infer_dw(const Graph&, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  std::vector<ValueType> outputs = {{Elem::kF32, attrs.weight->value.shape()}};
  if (attrs.bias != nullptr && attrs.bias->trainable)
    outputs.push_back({Elem::kF32, {static_cast<int64_t>(attrs.conv.out_c)}});
  return outputs;
}

void forward_dw(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  kernels::conv2d_backward_weights(attrs.conv, run.f32(node.inputs[0]), run.f32(node.inputs[1]), false,
                                   run.f32(node.outputs[0]),
                                   node.outputs.size() > 1 ? run.f32(node.outputs[1]) : nullptr, run.pool());
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kReluOp;
extern const OpType kConv2dOp;
extern const OpType kConv2dDxOp;
extern const OpType kConv2dDwOp;
const OpType kConv2dOp{"conv2d", infer, cost, nullptr, -1, forward, parameters, backward};
const OpType kConv2dDxOp{"conv2d_dx", infer_dx, cost, nullptr, -1, forward_dx};
const OpType kConv2dDwOp{"conv2d_dw", infer_dw, cost, nullptr, -1, forward_dw};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  Graph& g = b.graph();
  ValueId dy = b.of(node.outputs[0]);
  if (attrs.relu && !b.past_relu(node.outputs[0]))
    dy = relu_grad(g, node.outputs[0], dy, node.name + ".relu_grad");
  if (b.wants(node.inputs[0]))
    b.add(node.inputs[0], g.add(kConv2dDxOp, {dy}, node.attributes, node.name + ".dx")[0]);
  if (!b.wants(*attrs.weight)) return;
  const auto out = g.add(kConv2dDwOp, {node.inputs[0], dy}, node.attributes, attrs.weight->name + ".grad");
  b.add(*attrs.weight, out[0]);
  if (out.size() > 1) b.add(*attrs.bias, out[1]);
}

}  // namespace

bool ends_with_relu(const Node& node) {
  return node.op == &kReluOp || (node.op == &kConv2dOp && node.attrs<Attrs>().relu);
}

ValueId conv2d(Graph& g, ValueId x, const kernels::Conv2d& conv, const Parameter& weight,
               const Parameter& bias, bool relu, std::string name) {
  kernels::Conv2d sized = conv;
  const Shape& shape = g.type(x).shape;
  if (shape.rank() == 4) {
    sized.batch = static_cast<size_t>(shape[0]);
    sized.in_h = static_cast<size_t>(shape[1]);
    sized.in_w = static_cast<size_t>(shape[2]);
  }
  return g.add(kConv2dOp, {x}, std::make_shared<Attrs>(Attrs{sized, &weight, bias ? &bias : nullptr, relu}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
