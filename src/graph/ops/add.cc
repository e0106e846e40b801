// a + b, a + factor * b, and x + bias for every row.
#include "graph/ops/grad_ops.h"
#include "graph/ops/rows.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer_add(const Graph& g, const Node& node) {
  expect_equal(node, "rows", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns", g.type(node.inputs[0]).cols(), g.type(node.inputs[1]).cols());
  return same_as_first(g, node);
}

void forward_add(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.outputs[0]);
  const float* a = run.f32(node.inputs[0]);
  const float* b = run.f32(node.inputs[1]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    kernels::add(a + begin * cols, b + begin * cols, out + begin * cols, (end - begin) * cols);
  });
}

struct ScaledAttrs {
  float factor;
};

void forward_add_scaled(const Node& node, const RunContext& run) {
  const float factor = node.attrs<ScaledAttrs>().factor;
  const ValueType& type = run.type(node.outputs[0]);
  const float* a = run.f32(node.inputs[0]);
  const float* b = run.f32(node.inputs[1]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    kernels::add_scaled(a + begin * cols, b + begin * cols, factor, out + begin * cols, (end - begin) * cols);
  });
}

struct BiasAttrs {
  const Parameter* bias;
};

std::vector<ValueType> infer_bias(const Graph& g, const Node& node) {
  expect_equal(node, "bias values", g.type(node.inputs[0]).cols(),
               static_cast<size_t>(node.attrs<BiasAttrs>().bias->value.count()));
  return same_as_first(g, node);
}

void forward_bias(const Node& node, const RunContext& run) {
  const float* bias = node.attrs<BiasAttrs>().bias->value.data<float>();
  each_row(node, run, [&](const float* x, float* out, size_t cols) { kernels::add(x, bias, out, cols); });
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 1); }
Cost cost_scaled(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 2);
}

void backward_add(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.of(node.outputs[0]);
  for (ValueId input : node.inputs) b.add(input, dy);
}

void backward_add_scaled(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.of(node.outputs[0]);
  b.add(node.inputs[0], dy);
  if (b.wants(node.inputs[1]))
    b.add(node.inputs[1], scale(b.graph(), dy, node.attrs<ScaledAttrs>().factor, node.name + ".grad"));
}

std::vector<const Parameter*> bias_of(const Node& node) { return {node.attrs<BiasAttrs>().bias}; }

void backward_bias(GradientBuilder& b, const Node& node) {
  const Parameter& bias = *node.attrs<BiasAttrs>().bias;
  const ValueId dy = b.of(node.outputs[0]);
  b.add(node.inputs[0], dy);
  if (b.wants(bias)) b.add(bias, column_sum(b.graph(), dy, bias.name + ".grad"));
}

}  // namespace

extern const OpType kAddOp;
extern const OpType kAddBiasOp;
extern const OpType kAddScaledOp;
const OpType kAddOp{"add", infer_add, cost, nullptr, 0, forward_add, nullptr, backward_add};
const OpType kAddBiasOp{"add_bias", infer_bias, cost, nullptr, 0, forward_bias, bias_of, backward_bias};
const OpType kAddScaledOp{"add_scaled",       infer_add, cost_scaled,        nullptr, 0,
                          forward_add_scaled, nullptr,   backward_add_scaled};

ValueId add(Graph& g, ValueId a, ValueId b, std::string name) {
  return g.add(kAddOp, {a, b}, nullptr, std::move(name))[0];
}

ValueId add_scaled(Graph& g, ValueId a, ValueId b, float factor, std::string name) {
  return g.add(kAddScaledOp, {a, b}, std::make_shared<ScaledAttrs>(ScaledAttrs{factor}), std::move(name))[0];
}

ValueId add_bias(Graph& g, ValueId x, const Parameter& bias, std::string name) {
  return g.add(kAddBiasOp, {x}, std::make_shared<BiasAttrs>(BiasAttrs{&bias}), std::move(name))[0];
}

}  // namespace butterfly::graph
