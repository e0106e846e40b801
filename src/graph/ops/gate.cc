// Gates: values times the sigmoid of others, one for each value or one for each row; and the two halves of
// groups of columns, where a product gives values and their gates together.
#include <algorithm>

#include "graph/gradients.h"
#include "graph/ops/op_util.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/math/math.h"
#include "kernels/rows/reduce.h"

namespace butterfly::graph {
namespace {

std::vector<ValueType> infer_gate(const Graph& g, const Node& node) {
  const ValueType &x = g.type(node.inputs[0]), &gate = g.type(node.inputs[1]);
  expect_elem(g, node, node.inputs[1], Elem::kF32);
  expect_equal(node, "rows of gates", x.rows(), gate.rows());
  if (gate.cols() != 1) expect_equal(node, "columns of gates", x.cols(), gate.cols());
  return same_as_first(g, node);
}

Cost cost_gate(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 6); }

void forward_gate(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.outputs[0]);
  const size_t cols = type.cols();
  const bool by_row = run.type(node.inputs[1]).cols() == 1 && cols != 1;
  const float* x = run.f32(node.inputs[0]);
  const float* gate = run.f32(node.inputs[1]);
  float* out = run.f32(node.outputs[0]);
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const size_t at = row * cols;
      if (by_row) {
        kernels::scale(x + at, kernels::sigmoid_f32(gate[row]), out + at, cols);
        continue;
      }
      // In pieces, so that the gates' sigmoids need little room: `out` may be x.
      constexpr size_t kPiece = 256;
      float opened[kPiece];
      for (size_t i = 0; i < cols; i += kPiece) {
        const size_t count = std::min(kPiece, cols - i);
        kernels::sigmoid(gate + at + i, opened, count);
        kernels::mul(x + at + i, opened, out + at + i, count);
      }
    }
  });
}

// Inputs: x, the gates, dy. Outputs: dx and the gradient of the gates.
std::vector<ValueType> infer_gate_grad(const Graph& g, const Node& node) {
  return {g.type(node.inputs[0]), g.type(node.inputs[1])};
}

Cost cost_gate_grad(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 10);
}

void forward_gate_grad(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const size_t cols = type.cols();
  const bool by_row = run.type(node.inputs[1]).cols() == 1 && cols != 1;
  const float* x = run.f32(node.inputs[0]);
  const float* gate = run.f32(node.inputs[1]);
  const float* dy = run.f32(node.inputs[2]);
  float* dx = run.f32(node.outputs[0]);
  float* dgate = run.f32(node.outputs[1]);
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const size_t at = row * cols;
      if (by_row) {
        const float open = kernels::sigmoid_f32(gate[row]);
        dgate[row] = kernels::dot(dy + at, x + at, cols) * (open * (1.0f - open));
        kernels::scale(dy + at, open, dx + at, cols);
        continue;
      }
      for (size_t i = at; i < at + cols; ++i) {
        const float open = kernels::sigmoid_f32(gate[i]), slope = dy[i];
        dgate[i] = slope * x[i] * (open * (1.0f - open));
        dx[i] = slope * open;
      }
    }
  });
}

void backward_gate(GradientBuilder& b, const Node& node);
void backward_halves(GradientBuilder& b, const Node& node);

struct HalvesAttrs {
  size_t half;  // columns
};

std::vector<ValueType> infer_halves(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ValueType& x = g.type(node.inputs[0]);
  const size_t half = node.attrs<HalvesAttrs>().half;
  expect_equal(node, "columns beyond whole groups", 0, half == 0 ? 1 : x.cols() % (2 * half));
  return {floats(x.rows(), x.cols() / 2), floats(x.rows(), x.cols() / 2)};
}

Cost cost_halves(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 0);
}

void forward_halves(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const size_t cols = type.cols(), half = node.attrs<HalvesAttrs>().half;
  const float* x = run.f32(node.inputs[0]);
  float* first = run.f32(node.outputs[0]);
  float* second = run.f32(node.outputs[1]);
  run.for_rows(type.rows(), cols, [&](size_t begin, size_t end) {
    for (size_t at = begin * cols; at < end * cols; at += 2 * half) {
      std::copy_n(x + at, half, first + at / 2);
      std::copy_n(x + at + half, half, second + at / 2);
    }
  });
}

}  // namespace

extern const OpType kGateOp;
extern const OpType kGateGradOp;
extern const OpType kHalvesOp;
const OpType kGateOp{"gate", infer_gate, cost_gate, nullptr, 0, forward_gate, nullptr, backward_gate};
const OpType kGateGradOp{"gate_grad", infer_gate_grad, cost_gate_grad, nullptr, -1, forward_gate_grad};
const OpType kHalvesOp{"halves", infer_halves,   cost_halves, nullptr,
                       -1,       forward_halves, nullptr,     backward_halves};

namespace {

void backward_gate(GradientBuilder& b, const Node& node) {
  const auto out = b.graph().add(kGateGradOp, {node.inputs[0], node.inputs[1], b.of(node.outputs[0])},
                                 nullptr, node.name + ".grad");
  b.add(node.inputs[0], out[0]);
  b.add(node.inputs[1], out[1]);
}

// A half that nothing depends on has a gradient of zeros.
void backward_halves(GradientBuilder& b, const Node& node) {
  const size_t half = node.attrs<HalvesAttrs>().half;
  ValueId parts[] = {b.of(node.outputs[0]), b.of(node.outputs[1])};
  for (size_t i = 0; i < 2; ++i)
    if (!parts[i].valid()) parts[i] = scale(b.graph(), node.outputs[i], 0, node.name + ".zeros");
  b.add(node.inputs[0], join_columns(b.graph(), parts[0], parts[1], half, half, node.name + ".grad"));
}

}  // namespace

ValueId gate(Graph& g, ValueId x, ValueId by, std::string name) {
  return g.add(kGateOp, {x, by}, nullptr, std::move(name))[0];
}

std::pair<ValueId, ValueId> halves(Graph& g, ValueId x, size_t half, std::string name) {
  const auto out = g.add(kHalvesOp, {x}, std::make_shared<HalvesAttrs>(HalvesAttrs{half}), std::move(name));
  return {out[0], out[1]};
}

}  // namespace butterfly::graph
