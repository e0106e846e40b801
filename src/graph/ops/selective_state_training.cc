// Mamba-2's recurrence over the sequences of a training batch, and backwards (sequence_states.h).
#include "graph/gradients.h"
#include "graph/ops/recurrent_rows.h"
#include "graph/ops/sequence_states.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/recurrent/selective_state_backward.h"

namespace butterfly::graph {
namespace {

using kernels::SelectiveToken;

constexpr size_t kPositions = 2;  // input of the forward pass, behind rows and steps

struct Attrs {
  SelectiveStateShape shape;
  size_t length;
  SequenceStates sizes() const {
    const kernels::SelectiveShape one{shape.state_dim, shape.head_dim, 0};
    return {.heads = shape.heads,
            .state_floats = one.state_floats(),
            .length = length,
            .part_floats = 2 * shape.state_dim,
            .spare_floats = kernels::selective_spare_floats(one)};
  }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  expect_equal(node, "rows beyond whole sequences", 0,
               attrs.length == 0 ? 1 : g.type(node.inputs[0]).rows() % attrs.length);
  return {selective_type(g, node, attrs.shape)};
}

uint64_t state_values(const Graph& g, const Node& node) {
  const auto& shape = node.attrs<Attrs>().shape;
  return g.type(node.inputs[0]).rows() * shape.heads * shape.head_dim * shape.state_dim;
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 5 * state_values(g, node), .activation_bytes = value_bytes(g, node)};
}

size_t scratch(const Graph&, const Node& node) { return node.attrs<Attrs>().sizes().forward_scratch(); }

// Rows [row, row + count) of a head; `out` null: only the state is wanted.
void carry(const Node& node, const RunContext& run, size_t head, const float* from, float* to, size_t row,
           size_t count, float* out) {
  const SelectiveHead of(node.attrs<Attrs>().shape, head);
  SelectiveToken tokens[kStateChunk];
  for (size_t i = 0; i < count; ++i)
    tokens[i] = of.token(run.f32(node.inputs[0]), run.f32(node.inputs[1]), out, row + i);
  kernels::selective_state(of.matrix(), from, to, tokens, count);
}

void forward(const Node& node, const RunContext& run) {
  run_sequences(node, run, node.attrs<Attrs>().sizes(), SequenceRows(node, run, kPositions),
                [&](size_t head, const float* from, float* to, size_t row, size_t count) {
                  carry(node, run, head, from, to, row, count, run.f32(node.outputs[0]));
                });
}

// Inputs: rows, steps, the gradient of the result, positions. Outputs: the gradients of the first two, and
// memory.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  const SequenceStates sizes = node.attrs<Attrs>().sizes();
  return {g.type(node.inputs[0]), g.type(node.inputs[1]), sizes.snapshots(), sizes.slopes(), sizes.parts()};
}

// The recurrence twice more, and the slopes.
Cost cost_grad(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 24 * state_values(g, node), .activation_bytes = value_bytes(g, node)};
}

size_t scratch_grad(const Graph&, const Node& node) { return node.attrs<Attrs>().sizes().backward_scratch(); }

void back(const Node& node, const RunContext& run, size_t head, const float* before, size_t row, float* slope,
          float* part, float* spare) {
  const SelectiveStateShape& shape = node.attrs<Attrs>().shape;
  const SelectiveHead of(shape, head);
  const float* steps = run.f32(node.inputs[1]);
  const SelectiveToken token = of.token(run.f32(node.inputs[0]), steps, nullptr, row);
  kernels::SelectiveGradient to{.dout = run.f32(node.inputs[2]) + of.out_at(row),
                                .db = part,
                                .dc = part + shape.state_dim,
                                .dx = run.f32(node.outputs[0]) + row * shape.columns() + of.x_at(),
                                .ddecay = 0,
                                .ddt = 0};
  kernels::selective_state_backward(of.matrix(), before, token, slope, to, spare);
  const size_t at = of.step_at(row);
  run.f32(node.outputs[1])[at] = of.step_slope(token, steps[at], to.ddecay, to.ddt);
}

// What groups write and read: their heads, in order.
void add_parts(const Node& node, const RunContext& run, size_t row, const float* parts, size_t stride) {
  const SelectiveStateShape& shape = node.attrs<Attrs>().shape;
  float* to = run.f32(node.outputs[0]) + row * shape.columns();
  const size_t inner = shape.heads * shape.head_dim;
  std::memset(to + inner, 0, (shape.columns() - inner) * sizeof(float));
  for (size_t head = 0; head < shape.heads; ++head) {
    const SelectiveHead of(shape, head);
    const float* part = parts + head * stride;
    kernels::add(to + of.b_at(), part, to + of.b_at(), shape.state_dim);
    kernels::add(to + of.c_at(), part + shape.state_dim, to + of.c_at(), shape.state_dim);
  }
}

void forward_grad(const Node& node, const RunContext& run) {
  run_sequences_back(
      node, run, node.attrs<Attrs>().sizes(), SequenceRows(node, run, kPositions + 1),
      {run.f32(node.outputs[2]), run.f32(node.outputs[3]), run.f32(node.outputs[4])},
      [&](size_t head, const float* from, float* to, size_t row, size_t count) {
        carry(node, run, head, from, to, row, count, nullptr);
      },
      [&](size_t head, const float* before, size_t row, float* slope, float* part, float* spare) {
        back(node, run, head, before, row, slope, part, spare);
      },
      [&](size_t row, const float* parts, size_t stride) { add_parts(node, run, row, parts, stride); });
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kSequenceStateOp;
extern const OpType kSequenceStateGradOp;
const OpType kSequenceStateOp{"sequence_state", infer, cost, scratch, -1, forward, nullptr, backward};
const OpType kSequenceStateGradOp{"sequence_state_grad", infer_grad, cost_grad,
                                  scratch_grad,          -1,         forward_grad};

namespace {

// The head's own numbers (a, dt, skip) are frozen.
void backward(GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs{node.inputs[0], node.inputs[1], b.of(node.outputs[0])};
  if (node.inputs.size() > kPositions) inputs.push_back(node.inputs[kPositions]);
  const auto out = b.graph().add(kSequenceStateGradOp, inputs, node.attributes, node.name + ".grad");
  for (size_t i = 0; i < kPositions; ++i) b.add(node.inputs[i], out[i]);
}

}  // namespace

ValueId sequence_state(Graph& g, ValueId rows, ValueId steps, const SelectiveStateShape& shape, size_t length,
                       std::string name, ValueId positions) {
  std::vector<ValueId> inputs{rows, steps};
  if (positions.valid()) inputs.push_back(positions);
  return g.add(kSequenceStateOp, inputs, std::make_shared<Attrs>(Attrs{shape, length}), std::move(name))[0];
}

}  // namespace butterfly::graph
