// Rotary positions: the rotations of a batch's positions once, then applied to queries and keys of every
// layer.
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "graph/ops/rows.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::graph {
namespace {

struct RotationsAttrs {
  const kernels::Rope* rope;
};

std::vector<ValueType> infer_rotations(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kI32);
  return {floats(g.type(node.inputs[0]).rows(), node.attrs<RotationsAttrs>().rope->rotation_floats())};
}

// Two functions of about 20 flops a pair.
Cost cost_rotations(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 20);
}

void forward_rotations(const Node& node, const RunContext& run) {
  const kernels::Rope& rope = *node.attrs<RotationsAttrs>().rope;
  const int32_t* positions = run.i32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  // A turn costs far more than a copied value: let the fork pay off earlier.
  run.for_rows(run.type(node.inputs[0]).rows(), 16 * rope.rotation_floats(), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      rope.rotations(positions[row], out + row * rope.rotation_floats());
  });
}

// Turns the other way round: sines of the other sign.
void forward_rotations_back(const Node& node, const RunContext& run) {
  const size_t pairs = run.type(node.inputs[0]).cols() / 2;
  each_row(node, run, [&](const float* turn, float* out, size_t) {
    if (out != turn) std::memcpy(out, turn, pairs * sizeof(float));
    kernels::scale(turn + pairs, -1.0f, out + pairs, pairs);
  });
}

Cost cost_rotations_back(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 1);
}

struct RopeAttrs {
  kernels::RopeLayout layout;
  size_t head_dim;
};

std::vector<ValueType> infer_rope(const Graph& g, const Node& node) {
  expect_equal(node, "rows of rotations", g.type(node.inputs[0]).rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns beyond whole heads", 0,
               g.type(node.inputs[0]).cols() % node.attrs<RopeAttrs>().head_dim);
  return same_as_first(g, node);
}

Cost cost_rope(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 3); }

void forward_rope(const Node& node, const RunContext& run) {
  const RopeAttrs& attrs = node.attrs<RopeAttrs>();
  const ValueType& rotations_type = run.type(node.inputs[1]);
  const ValueType& type = run.type(node.inputs[0]);
  const float* rotations = run.f32(node.inputs[1]);
  const float* x = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  run.for_rows(type.rows(), type.cols(), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      float* to = out + row * type.cols();
      if (out != x) std::memcpy(to, x + row * type.cols(), type.row_bytes());
      kernels::rope(attrs.layout, rotations + row * rotations_type.cols(), rotations_type.cols() / 2, to,
                    type.cols() / attrs.head_dim, attrs.head_dim);
    }
  });
}

void backward_rope(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kRopeRotationsOp;
extern const OpType kRopeRotationsBackOp;
extern const OpType kRopeOp;
const OpType kRopeRotationsOp{"rope_rotations", infer_rotations, cost_rotations, nullptr, -1,
                              forward_rotations};
const OpType kRopeRotationsBackOp{"rope_rotations_back", same_as_first, cost_rotations_back, nullptr, 0,
                                  forward_rotations_back};
const OpType kRopeOp{"rope", infer_rope, cost_rope, nullptr, 0, forward_rope, nullptr, backward_rope};

namespace {

// The gradient is rotated back; all layers share the rotations.
void backward_rope(GradientBuilder& b, const Node& node) {
  if (!b.wants(node.inputs[0])) return;
  const RopeAttrs& attrs = node.attrs<RopeAttrs>();
  const ValueId rotations = node.inputs[1];
  const ValueId back = b.once(rotations, [&] {
    return b.graph().add(kRopeRotationsBackOp, {rotations}, nullptr, "rope_rotations_back")[0];
  });
  b.add(node.inputs[0],
        rope(b.graph(), b.of(node.outputs[0]), back, attrs.layout, attrs.head_dim, node.name + ".grad"));
}

}  // namespace

ValueId rope_rotations(Graph& g, ValueId positions, const kernels::Rope& rope, std::string name) {
  return g.add(kRopeRotationsOp, {positions}, std::make_shared<RotationsAttrs>(RotationsAttrs{&rope}),
               std::move(name))[0];
}

ValueId rope(Graph& g, ValueId x, ValueId rotations, kernels::RopeLayout layout, size_t head_dim,
             std::string name) {
  return g.add(kRopeOp, {x, rotations}, std::make_shared<RopeAttrs>(RopeAttrs{layout, head_dim}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
