// Backward of functions of single values and of gated activations.
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/activation_backward.h"

#include <algorithm>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  float cap;
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_equal(node, "columns", g.type(node.inputs[0]).cols(), g.type(node.inputs[1]).cols());
  return same_as_first(g, node);
}

// exp, division and about ten more.
Cost cost_function(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 16);
}
Cost cost_compare(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 1);
}

// fn(offset, count) over pieces of whole rows.
template <typename F>
void each_piece(const Node& node, const RunContext& run, F&& fn) {
  const ValueType& type = run.type(node.outputs[0]);
  const size_t cols = type.cols();
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) { fn(begin * cols, (end - begin) * cols); });
}

template <void (*kernel)(const float*, const float*, float*, size_t)>
void forward(const Node& node, const RunContext& run) {
  const float* x = run.f32(node.inputs[0]);
  const float* dy = run.f32(node.inputs[1]);
  float* dx = run.f32(node.outputs[0]);
  each_piece(node, run, [&](size_t at, size_t count) { kernel(x + at, dy + at, dx + at, count); });
}

void forward_soft_cap(const Node& node, const RunContext& run) {
  const float* y = run.f32(node.inputs[0]);
  const float* dy = run.f32(node.inputs[1]);
  float* dx = run.f32(node.outputs[0]);
  const float cap = node.attrs<Attrs>().cap;
  each_piece(node, run,
             [&](size_t at, size_t count) { soft_cap_backward(y + at, dy + at, cap, dx + at, count); });
}

std::vector<ValueType> infer_gated(const Graph& g, const Node& node) {
  const ValueType type = infer(g, node)[0];
  return {type, type};
}

template <void (*kernel)(const float*, const float*, const float*, float*, float*, size_t)>
void forward_gated(const Node& node, const RunContext& run) {
  const float* gate = run.f32(node.inputs[0]);
  const float* up = run.f32(node.inputs[1]);
  const float* dy = run.f32(node.inputs[2]);
  float* dgate = run.f32(node.outputs[0]);
  float* dup = run.f32(node.outputs[1]);
  each_piece(node, run, [&](size_t at, size_t count) {
    kernel(gate + at, up + at, dy + at, dgate + at, dup + at, count);
  });
}

// With g = min(gate, limit), u = up within the limits and s = sigmoid(slope g): out = g s (u + 1). Beyond a
// limit the slope is 0. A NaN stays one.
void swiglu_clamped_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                             size_t count) {
  constexpr size_t kPiece = 256;
  constexpr float kLimit = kernels::kSwigluLimit, kSlope = kernels::kSwigluSlope;
  float g[kPiece], s[kPiece];
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t n = std::min(kPiece, count - at);
    for (size_t i = 0; i < n; ++i) {
      g[i] = gate[at + i] > kLimit ? kLimit : gate[at + i];
      s[i] = kSlope * g[i];
    }
    kernels::sigmoid(s, s, n);
    for (size_t i = 0; i < n; ++i) {
      const float x = gate[at + i], y = up[at + i], slope = dy[at + i];  // which may be where results go
      const float u = y > kLimit ? kLimit : y < -kLimit ? -kLimit : y;
      const float of_gate = s[i] + kSlope * g[i] * (s[i] * (1.0f - s[i]));
      dgate[at + i] = x > kLimit ? 0.0f : slope * (u + 1.0f) * of_gate;
      dup[at + i] = y > kLimit || y < -kLimit ? 0.0f : slope * (g[i] * s[i]);
    }
  }
}

}  // namespace

extern const OpType kReluGradOp;
extern const OpType kSiluGradOp;
extern const OpType kGeluGradOp;
extern const OpType kSoftCapGradOp;
extern const OpType kSwigluGradOp;
extern const OpType kGegluGradOp;
extern const OpType kSwigluClampedGradOp;
// In place of the gradient, which usually dies here; x may be needed once more.
const OpType kReluGradOp{"relu_grad", infer, cost_compare, nullptr, 1, forward<kernels::relu_backward>};
const OpType kSiluGradOp{"silu_grad", infer, cost_function, nullptr, 1, forward<kernels::silu_backward>};
const OpType kGeluGradOp{"gelu_grad", infer, cost_function, nullptr, 1, forward<kernels::gelu_backward>};
const OpType kSoftCapGradOp{"soft_cap_grad", infer, cost_compare, nullptr, 1, forward_soft_cap};
const OpType kSwigluGradOp{"swiglu_grad", infer_gated, cost_function,
                           nullptr,       2,           forward_gated<kernels::swiglu_backward>};
const OpType kGegluGradOp{"geglu_grad", infer_gated, cost_function,
                          nullptr,      2,           forward_gated<kernels::geglu_backward>};
const OpType kSwigluClampedGradOp{
    "swiglu_clamped_grad", infer_gated, cost_function, nullptr, 2, forward_gated<swiglu_clamped_backward>};

void soft_cap_backward(const float* y, const float* dy, float cap, float* dx, size_t count) {
  constexpr size_t kPiece = 512;
  float part[kPiece];
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t n = std::min(kPiece, count - at);
    kernels::scale(y + at, 1.0f / cap, part, n);
    kernels::mul(part, part, part, n);
    kernels::mul(part, dy + at, part, n);
    kernels::sub(dy + at, part, dx + at, n);
  }
}

GatedGradients swiglu_clamped_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name) {
  const auto out = g.add(kSwigluClampedGradOp, {gate, up, dy}, nullptr, std::move(name));
  return {out[0], out[1]};
}

ValueId relu_grad(Graph& g, ValueId y, ValueId dy, std::string name) {
  return g.add(kReluGradOp, {y, dy}, nullptr, std::move(name))[0];
}

ValueId silu_grad(Graph& g, ValueId x, ValueId dy, std::string name) {
  return g.add(kSiluGradOp, {x, dy}, nullptr, std::move(name))[0];
}

ValueId gelu_grad(Graph& g, ValueId x, ValueId dy, std::string name) {
  return g.add(kGeluGradOp, {x, dy}, nullptr, std::move(name))[0];
}

ValueId soft_cap_grad(Graph& g, ValueId y, ValueId dy, float cap, std::string name) {
  return g.add(kSoftCapGradOp, {y, dy}, std::make_shared<Attrs>(Attrs{cap}), std::move(name))[0];
}

GatedGradients swiglu_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name) {
  const auto out = g.add(kSwigluGradOp, {gate, up, dy}, nullptr, std::move(name));
  return {out[0], out[1]};
}

GatedGradients geglu_grad(Graph& g, ValueId gate, ValueId up, ValueId dy, std::string name) {
  const auto out = g.add(kGegluGradOp, {gate, up, dy}, nullptr, std::move(name));
  return {out[0], out[1]};
}

}  // namespace butterfly::graph
