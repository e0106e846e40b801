// Functions of single values: a constant factor, a soft cap, relu, silu, gelu.
#include <algorithm>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  float value;  // the factor or the cap
};

std::vector<ValueType> infer(const Graph& g, const Node& node) { return same_as_first(g, node); }

// fn(x, out, count) over pieces of whole rows.
template <typename F>
void each_piece(const Node& node, const RunContext& run, F&& fn) {
  const ValueType& type = run.type(node.outputs[0]);
  const float* x = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    fn(x + begin * cols, out + begin * cols, (end - begin) * cols);
  });
}

Cost cost_scale(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 1); }

void forward_scale(const Node& node, const RunContext& run) {
  const float factor = node.attrs<Attrs>().value;
  each_piece(node, run,
             [&](const float* x, float* out, size_t count) { kernels::scale(x, factor, out, count); });
}

// tanh, a product and a division.
Cost cost_function(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 12);
}

void forward_soft_cap(const Node& node, const RunContext& run) {
  const float cap = node.attrs<Attrs>().value;
  each_piece(node, run, [&](const float* x, float* out, size_t count) {
    if (out != x) std::copy(x, x + count, out);
    kernels::soft_cap(out, cap, count);
  });
}

template <void (*kernel)(const float*, float*, size_t)>
void forward_function(const Node& node, const RunContext& run) {
  each_piece(node, run, [&](const float* x, float* out, size_t count) { kernel(x, out, count); });
}

void backward_scale(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0],
        scale(b.graph(), b.of(node.outputs[0]), node.attrs<Attrs>().value, node.name + ".grad"));
}

void backward_soft_cap(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], soft_cap_grad(b.graph(), node.outputs[0], b.of(node.outputs[0]),
                                      node.attrs<Attrs>().value, node.name + ".grad"));
}

void backward_relu(GradientBuilder& b, const Node& node) {
  const ValueId y = node.outputs[0], dy = b.of(y);
  b.add(node.inputs[0], b.past_relu(y) ? dy : relu_grad(b.graph(), y, dy, node.name + ".grad"));
}

template <ValueId (*grad)(Graph&, ValueId, ValueId, std::string)>
void backward_function(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], grad(b.graph(), node.inputs[0], b.of(node.outputs[0]), node.name + ".grad"));
}

}  // namespace

extern const OpType kScaleOp;
extern const OpType kSoftCapOp;
extern const OpType kReluOp;
extern const OpType kSiluOp;
extern const OpType kGeluOp;
const OpType kScaleOp{"scale", infer, cost_scale, nullptr, 0, forward_scale, nullptr, backward_scale};
const OpType kSoftCapOp{"soft_cap",       infer,   cost_function,    nullptr, 0,
                        forward_soft_cap, nullptr, backward_soft_cap};
const OpType kReluOp{"relu",  infer,        cost_scale, nullptr, 0, forward_function<kernels::relu>,
                     nullptr, backward_relu};
const OpType kSiluOp{"silu",
                     infer,
                     cost_function,
                     nullptr,
                     0,
                     forward_function<kernels::silu>,
                     nullptr,
                     backward_function<silu_grad>};
const OpType kGeluOp{"gelu",
                     infer,
                     cost_function,
                     nullptr,
                     0,
                     forward_function<kernels::gelu>,
                     nullptr,
                     backward_function<gelu_grad>};

ValueId scale(Graph& g, ValueId x, float factor, std::string name) {
  return g.add(kScaleOp, {x}, std::make_shared<Attrs>(Attrs{factor}), std::move(name))[0];
}

ValueId soft_cap(Graph& g, ValueId x, float cap, std::string name) {
  return g.add(kSoftCapOp, {x}, std::make_shared<Attrs>(Attrs{cap}), std::move(name))[0];
}

ValueId relu(Graph& g, ValueId x, std::string name) {
  return g.add(kReluOp, {x}, nullptr, std::move(name))[0];
}

ValueId silu(Graph& g, ValueId x, std::string name) {
  return g.add(kSiluOp, {x}, nullptr, std::move(name))[0];
}

ValueId gelu(Graph& g, ValueId x, std::string name) {
  return g.add(kGeluOp, {x}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
