// Direct preference optimisation (Rafailov et al., 2023): how much a chosen answer is preferred to a rejected
// one, beyond what the model preferred before it learned.
//
// With sums of the rows' cross-entropies of the chosen answer (c) and the rejected one (r), by the model that
// learns and by the one it began as:
//   z = beta * ((ref_c - c) - (ref_r - r));  loss = log(1 + exp(-z)), its slope by c: beta * sigmoid(-z), by
//   r the negative.
#include <cmath>

#include "graph/head_loss.h"
#include "graph/ops/op_util.h"
#include "kernels/math/math.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  size_t length;  // rows of an answer
  float beta;
};

// Inputs: losses of rows, those of the reference, factor. Outputs: loss, 1 in the first row of pairs that
// are preferred rightly, the slope by each row's loss.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const size_t rows = g.type(node.inputs[0]).rows(), pair = 2 * node.attrs<Attrs>().length;
  expect_equal(node, "losses of the reference", rows, g.type(node.inputs[1]).rows());
  expect_equal(node, "rows beyond whole pairs", 0, pair == 0 ? 1 : rows % pair);
  const auto n = static_cast<int64_t>(rows);
  return {{Elem::kF32, {1}}, {Elem::kI32, {n}}, {Elem::kF32, {n}}};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 4 * g.type(node.inputs[0]).rows(), .activation_bytes = value_bytes(g, node)};
}

// In the order of rows and in double, so that long answers lose nothing.
double sum_of(const float* losses, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
  return sum;
}

void forward(const Node& node, const RunContext& run) {
  const auto& [length, beta] = node.attrs<Attrs>();
  const size_t pairs = run.type(node.inputs[0]).rows() / (2 * length);
  const float* now = run.f32(node.inputs[0]);
  const float* before = run.f32(node.inputs[1]);
  const float factor = run.f32(node.inputs[2])[0];
  int32_t* correct = run.i32(node.outputs[1]);
  float* slopes = run.f32(node.outputs[2]);
  float total = 0;
  for (size_t pair = 0; pair < pairs; ++pair) {
    const size_t chosen = 2 * pair * length, rejected = chosen + length;
    const double gained = sum_of(before + chosen, length) - sum_of(now + chosen, length),
                 given = sum_of(before + rejected, length) - sum_of(now + rejected, length);
    const auto z = static_cast<float>(static_cast<double>(beta) * (gained - given));
    total += kernels::softplus_f32(-z);
    const float slope = beta * kernels::sigmoid_f32(-z);
    for (size_t i = 0; i < length; ++i) {
      slopes[chosen + i] = slope;
      slopes[rejected + i] = -slope;
      correct[chosen + i] = correct[rejected + i] = 0;
    }
    correct[chosen] = z > 0;
  }
  run.f32(node.outputs[0])[0] = total * factor;
}

}  // namespace

extern const OpType kPreferenceOp;
const OpType kPreferenceOp{"preference", infer, cost, nullptr, -1, forward};

Preference preference(Graph& g, ValueId losses, ValueId reference, ValueId factor, size_t length, float beta,
                      std::string name) {
  const auto out = g.add(kPreferenceOp, {losses, reference, factor},
                         std::make_shared<Attrs>(Attrs{length, beta}), std::move(name));
  return {out[0], out[1], out[2]};
}

}  // namespace butterfly::graph
