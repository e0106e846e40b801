// The gated delta rule over the sequences of a training batch, and backwards (sequence_states.h).
#include "graph/gradients.h"
#include "graph/ops/recurrent_rows.h"
#include "graph/ops/sequence_states.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/recurrent/gated_delta_backward.h"

namespace butterfly::graph {
namespace {

using kernels::DeltaToken;

constexpr size_t kPositions = 3;  // input of the forward pass, behind rows, alpha and beta

struct Attrs {
  GatedDeltaShape shape;
  size_t length;
  SequenceStates sizes() const {
    const kernels::DeltaShape one{shape.key_dim, shape.value_dim, shape.scale};
    return {.heads = shape.value_heads,
            .state_floats = one.state_floats(),
            .length = length,
            .part_floats = 2 * shape.key_dim,
            .spare_floats = kernels::delta_spare_floats(one)};
  }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  expect_equal(node, "rows beyond whole sequences", 0,
               attrs.length == 0 ? 1 : g.type(node.inputs[0]).rows() % attrs.length);
  return {delta_type(g, node, attrs.shape)};
}

uint64_t state_values(const Graph& g, const Node& node) {
  const auto& shape = node.attrs<Attrs>().shape;
  return g.type(node.inputs[0]).rows() * shape.value_heads * shape.key_dim * shape.value_dim;
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 8 * state_values(g, node), .activation_bytes = value_bytes(g, node)};
}

size_t scratch(const Graph&, const Node& node) { return node.attrs<Attrs>().sizes().forward_scratch(); }

// Rows [row, row + count) of a head; `out` null: only the state is wanted.
void carry(const Node& node, const RunContext& run, size_t head, const float* from, float* to, size_t row,
           size_t count, float* out) {
  const DeltaHead of(node.attrs<Attrs>().shape, head);
  DeltaToken tokens[kStateChunk];
  for (size_t i = 0; i < count; ++i)
    tokens[i] =
        of.token(run.f32(node.inputs[0]), run.f32(node.inputs[1]), run.f32(node.inputs[2]), out, row + i);
  kernels::gated_delta(of.matrix(), from, to, tokens, count);
}

void forward(const Node& node, const RunContext& run) {
  run_sequences(node, run, node.attrs<Attrs>().sizes(), SequenceRows(node, run, kPositions),
                [&](size_t head, const float* from, float* to, size_t row, size_t count) {
                  carry(node, run, head, from, to, row, count, run.f32(node.outputs[0]));
                });
}

// Inputs: rows, alpha, beta, the gradient of the result, positions. Outputs: the gradients of the first
// three, and memory.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  const SequenceStates sizes = node.attrs<Attrs>().sizes();
  return {g.type(node.inputs[0]), g.type(node.inputs[1]), g.type(node.inputs[2]),
          sizes.snapshots(),      sizes.slopes(),         sizes.parts()};
}

// The recurrence twice more, and about as much again twice for the slopes.
Cost cost_grad(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 36 * state_values(g, node), .activation_bytes = value_bytes(g, node)};
}

size_t scratch_grad(const Graph&, const Node& node) { return node.attrs<Attrs>().sizes().backward_scratch(); }

void back(const Node& node, const RunContext& run, size_t head, const float* before, size_t row, float* slope,
          float* part, float* spare) {
  const GatedDeltaShape& shape = node.attrs<Attrs>().shape;
  const DeltaHead of(shape, head);
  const float *alpha = run.f32(node.inputs[1]), *beta = run.f32(node.inputs[2]);
  const DeltaToken token = of.token(run.f32(node.inputs[0]), alpha, beta, nullptr, row);
  kernels::DeltaGradient to{.dout = run.f32(node.inputs[3]) + of.out_at(row),
                            .dq = part,
                            .dk = part + shape.key_dim,
                            .dv = run.f32(node.outputs[0]) + row * of.columns() + of.value_at(),
                            .ddecay = 0,
                            .dbeta = 0};
  kernels::gated_delta_backward(of.matrix(), before, token, slope, to, spare);
  const size_t gate = of.gate_at(row);
  run.f32(node.outputs[1])[gate] = of.alpha_slope(token, alpha[gate], to.ddecay);
  run.f32(node.outputs[2])[gate] = DeltaHead::beta_slope(token, to.dbeta);
}

// Queries and keys of a row: value heads that share a key head, in order.
void add_parts(const Node& node, const RunContext& run, size_t row, const float* parts, size_t stride) {
  const GatedDeltaShape& shape = node.attrs<Attrs>().shape;
  const DeltaHead first(shape, 0);
  float* to = run.f32(node.outputs[0]) + row * first.columns();
  std::memset(to, 0, 2 * first.keys() * sizeof(float));
  for (size_t head = 0; head < shape.value_heads; ++head) {
    const DeltaHead of(shape, head);
    const float* part = parts + head * stride;
    kernels::add(to + of.query_at(), part, to + of.query_at(), shape.key_dim);
    kernels::add(to + of.key_at(), part + shape.key_dim, to + of.key_at(), shape.key_dim);
  }
}

void forward_grad(const Node& node, const RunContext& run) {
  run_sequences_back(
      node, run, node.attrs<Attrs>().sizes(), SequenceRows(node, run, kPositions + 1),
      {run.f32(node.outputs[3]), run.f32(node.outputs[4]), run.f32(node.outputs[5])},
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

extern const OpType kSequenceDeltaOp;
extern const OpType kSequenceDeltaGradOp;
const OpType kSequenceDeltaOp{"sequence_delta", infer, cost, scratch, -1, forward, nullptr, backward};
const OpType kSequenceDeltaGradOp{"sequence_delta_grad", infer_grad, cost_grad,
                                  scratch_grad,          -1,         forward_grad};

namespace {

// The head's own numbers (a, dt) are frozen.
void backward(GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs{node.inputs[0], node.inputs[1], node.inputs[2], b.of(node.outputs[0])};
  if (node.inputs.size() > kPositions) inputs.push_back(node.inputs[kPositions]);
  const auto out = b.graph().add(kSequenceDeltaGradOp, inputs, node.attributes, node.name + ".grad");
  for (size_t i = 0; i < kPositions; ++i) b.add(node.inputs[i], out[i]);
}

}  // namespace

ValueId sequence_delta(Graph& g, ValueId qkv, ValueId alpha, ValueId beta, const GatedDeltaShape& shape,
                       size_t length, std::string name, ValueId positions) {
  std::vector<ValueId> inputs{qkv, alpha, beta};
  if (positions.valid()) inputs.push_back(positions);
  return g.add(kSequenceDeltaOp, inputs, std::make_shared<Attrs>(Attrs{shape, length}), std::move(name))[0];
}

}  // namespace butterfly::graph
