// Products with plain float weights, and the two products of their backward pass.
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/gemm/gemm.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;
  const Parameter* bias;  // null: none
  size_t shard_unit;      // of the forward product; its gradients sum over something else
};

void expect_floats(const Node& node, const Parameter& weight) {
  if (weight.value.dtype() != DType::kF32 || weight.value.rank() != 2 || !weight.value.contiguous())
    fail(Errc::kInvalidArgument, "[{}] {}: expected a matrix of type F32, found {} {}", node.op->name,
         weight.name, dtype_name(weight.value.dtype()), weight.value.shape().to_string());
}

uint64_t product_flops(const Graph& g, const Node& node) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  return 2 * g.type(node.inputs.back()).rows() * weight.rows() * weight.cols();
}

std::vector<ValueType> infer_linear(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_floats(node, *attrs.weight);
  expect_equal(node, "columns", attrs.weight->cols(), g.type(node.inputs[0]).cols());
  if (attrs.bias != nullptr)
    expect_equal(node, "bias values", attrs.weight->rows(), static_cast<size_t>(attrs.bias->value.count()));
  return {floats(g.type(node.inputs[0]).rows(), attrs.weight->rows())};
}

Cost cost_linear(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = product_flops(g, node),
          .weight_bytes = node.attrs<Attrs>().weight->value.bytes(),
          .activation_bytes = value_bytes(g, node)};
}

void forward_linear(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const size_t in = attrs.weight->cols(), out = attrs.weight->rows();
  kernels::Gemm job{.m = run.type(node.inputs[0]).rows(),
                    .n = out,
                    .k = in,
                    .a = {run.f32(node.inputs[0]), in},
                    .b = {attrs.weight->value.data<float>(), in, true},
                    .c = run.f32(node.outputs[0]),
                    .c_stride = out,
                    .shard_unit = attrs.shard_unit};
  if (attrs.bias != nullptr) job.epilogue.bias = attrs.bias->value.data<float>();
  kernels::gemm(job, run.pool());
}

std::vector<const Parameter*> parameters(const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  if (attrs.bias == nullptr) return {attrs.weight};
  return {attrs.weight, attrs.bias};
}

void backward(GradientBuilder& b, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueId x = node.inputs[0], dy = b.of(node.outputs[0]);
  if (b.wants(x)) b.set(x, linear_dx(b.graph(), dy, *attrs.weight, b.of(x), attrs.weight->name + ".dx"));
  if (attrs.bias != nullptr && b.wants(*attrs.bias))
    b.add(*attrs.bias, column_sum(b.graph(), dy, attrs.bias->name + ".grad"));
  if (b.wants(*attrs.weight)) b.add(*attrs.weight, linear_dw(b.graph(), dy, x, attrs.weight->name + ".grad"));
}

// Inputs: dy, or the sum so far and dy.
std::vector<ValueType> infer_dx(const Graph& g, const Node& node) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  expect_floats(node, weight);
  const ValueType& dy = g.type(node.inputs.back());
  expect_equal(node, "columns", weight.rows(), dy.cols());
  if (node.inputs.size() == 2) return {g.type(node.inputs[0])};
  return {floats(dy.rows(), weight.cols())};
}

void forward_dx(const Node& node, const RunContext& run) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  const ValueId dy = node.inputs.back();
  float* dx = run.f32(node.outputs[0]);
  const bool accumulate = node.inputs.size() == 2;
  if (accumulate && run.f32(node.inputs[0]) != dx)
    std::memcpy(dx, run.f32(node.inputs[0]), run.type(node.inputs[0]).bytes());
  kernels::gemm({.m = run.type(dy).rows(),
                 .n = weight.cols(),
                 .k = weight.rows(),
                 .a = {run.f32(dy), weight.rows()},
                 .b = {weight.value.data<float>(), weight.cols()},
                 .c = dx,
                 .c_stride = weight.cols(),
                 .accumulate = accumulate},
                run.pool());
}

std::vector<ValueType> infer_dw(const Graph& g, const Node& node) {
  const ValueType& dy = g.type(node.inputs[0]);
  const ValueType& x = g.type(node.inputs[1]);
  expect_equal(node, "rows", dy.rows(), x.rows());
  return {floats(dy.cols(), x.cols())};
}

Cost cost_dw(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& dy = g.type(node.inputs[0]);
  return {.flops = 2 * dy.rows() * dy.cols() * g.type(node.inputs[1]).cols(),
          .activation_bytes = value_bytes(g, node)};
}

void forward_dw(const Node& node, const RunContext& run) {
  const ValueType& dy = run.type(node.inputs[0]);
  const ValueType& x = run.type(node.inputs[1]);
  kernels::gemm({.m = dy.cols(),
                 .n = x.cols(),
                 .k = x.rows(),
                 .a = {run.f32(node.inputs[0]), dy.cols(), true},
                 .b = {run.f32(node.inputs[1]), x.cols()},
                 .c = run.f32(node.outputs[0]),
                 .c_stride = x.cols()},
                run.pool());
}

}  // namespace

extern const OpType kLinearOp;
extern const OpType kLinearDxOp;
extern const OpType kLinearDxAddOp;
extern const OpType kLinearDwOp;
const OpType kLinearOp{"linear", infer_linear,   cost_linear, nullptr,
                       -1,       forward_linear, parameters,  backward};
const OpType kLinearDxOp{"linear_dx", infer_dx, cost_linear, nullptr, -1, forward_dx};
const OpType kLinearDxAddOp{"linear_dx_add", infer_dx, cost_linear, nullptr, 0, forward_dx};
const OpType kLinearDwOp{"linear_dw", infer_dw, cost_dw, nullptr, -1, forward_dw};

ValueId linear(Graph& g, ValueId x, const Parameter& weight, const Parameter& bias, std::string name,
               size_t shard_unit) {
  return g.add(kLinearOp, {x}, std::make_shared<Attrs>(Attrs{&weight, bias ? &bias : nullptr, shard_unit}),
               std::move(name))[0];
}

ValueId linear_dx(Graph& g, ValueId dy, const Parameter& weight, ValueId sum, std::string name) {
  auto attrs = std::make_shared<Attrs>(Attrs{&weight, nullptr, 0});
  if (!sum.valid()) return g.add(kLinearDxOp, {dy}, std::move(attrs), std::move(name))[0];
  return g.add(kLinearDxAddOp, {sum, dy}, std::move(attrs), std::move(name))[0];
}

ValueId linear_dw(Graph& g, ValueId dy, ValueId x, std::string name) {
  return g.add(kLinearDwOp, {dy, x}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
