// Products with packed weights, and the activation rows they read.
#include "kernels/matmul/matmul.h"
#include "graph/ops/grad_ops.h"

namespace butterfly::graph {
namespace {

using kernels::ActKind;
using kernels::kPanelRows;
using kernels::PackedMatrix;

struct MatmulAttrs {
  std::vector<const Parameter*> weights;
  kernels::ShardCuts cuts;
};

std::vector<ValueType> infer_matmul(const Graph& g, const Node& node) {
  const ValueType& x = g.type(node.inputs[0]);
  std::vector<ValueType> outputs;
  for (const Parameter* weight : node.attrs<MatmulAttrs>().weights) {
    expect_equal(node, "columns", weight->packed.cols(), x.cols());
    expect_elem(g, node, node.inputs[0], elem_of(weight->packed.act()));
    outputs.push_back(floats(x.rows(), node.attrs<MatmulAttrs>().cuts.subtree_count * weight->packed.rows()));
  }
  expect_equal(node, "columns of shards", node.attrs<MatmulAttrs>().cuts.cols(), x.cols());
  return outputs;
}

Cost cost_matmul(const Graph& g, const Node& node, const CostContext&) {
  Cost cost{.activation_bytes = value_bytes(g, node)};
  for (const Parameter* weight : node.attrs<MatmulAttrs>().weights) {
    cost.flops += 2 * g.type(node.inputs[0]).rows() * weight->packed.rows() * weight->packed.cols();
    cost.weight_bytes += weight->packed.bytes();
  }
  return cost;
}

// Panels of all matrices stand in one line that the threads share.
void forward_matmul(const Node& node, const RunContext& run) {
  const MatmulAttrs& attrs = node.attrs<MatmulAttrs>();
  const auto& weights = attrs.weights;
  const ValueType& x = run.type(node.inputs[0]);
  size_t panels = 0;
  for (const Parameter* weight : weights) panels += weight->packed.panels();
  run.pool().parallel_for(panels, 1, [&](size_t begin, size_t end) {
    size_t first = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const PackedMatrix& w = weights[i]->packed;
      const size_t from = std::max(begin, first), to = std::min(end, first + w.panels());
      if (from < to)
        kernels::matmul_shards(w, attrs.cuts, run.raw(node.inputs[0]), x.row_bytes(), x.rows(),
                               run.f32(node.outputs[i]), attrs.cuts.subtree_count * w.rows(), w.rows(),
                               (from - first) * kPanelRows, std::min((to - first) * kPanelRows, w.rows()));
      first += w.panels();
    }
  });
}

std::vector<const Parameter*> weights_of(const Node& node) { return node.attrs<MatmulAttrs>().weights; }

// Packed weights are frozen: only the rows get a gradient.
void backward_matmul(GradientBuilder& b, const Node& node) {
  const auto& weights = node.attrs<MatmulAttrs>().weights;
  const ValueId x = node.inputs[0];
  for (size_t i = 0; i < weights.size(); ++i) {
    const ValueId dy = b.of(node.outputs[i]);
    if (dy.valid() && b.wants(x))
      b.set(x, matmul_dx(b.graph(), dy, *weights[i], b.of(x), weights[i]->name + ".dx"));
  }
}

struct QuantizeAttrs {
  ActKind kind;
};

std::vector<ValueType> infer_quantize(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ActKind kind = node.attrs<QuantizeAttrs>().kind;
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "columns beyond whole blocks", 0, x.cols() % kernels::act_block(kind));
  return {{elem_of(kind), x.shape}};
}

Cost cost_quantize(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 3);
}

void forward_quantize(const Node& node, const RunContext& run) {
  const ActKind kind = node.attrs<QuantizeAttrs>().kind;
  const ValueType& out = run.type(node.outputs[0]);
  const float* x = run.f32(node.inputs[0]);
  std::byte* to = run.raw(node.outputs[0]);
  run.for_rows(out.rows(), out.cols(), [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      kernels::quantize_activation(kind, x + row * out.cols(), out.cols(), to + row * out.row_bytes());
  });
}

// Rounding is passed over: the slope of the line it follows.
void backward_quantize(GradientBuilder& b, const Node& node) { b.add(node.inputs[0], b.of(node.outputs[0])); }

}  // namespace

extern const OpType kMatmulOp;
extern const OpType kQuantizeRowsOp;
const OpType kMatmulOp{"matmul", infer_matmul,   cost_matmul, nullptr,
                       -1,       forward_matmul, weights_of,  backward_matmul};
const OpType kQuantizeRowsOp{"quantize_rows",  infer_quantize, cost_quantize,    nullptr, -1,
                             forward_quantize, nullptr,        backward_quantize};

std::vector<ValueId> matmul(Graph& g, ValueId x, std::span<const Parameter* const> weights, std::string name,
                            size_t shard_unit) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->weights.assign(weights.begin(), weights.end());
  attrs->cuts = kernels::ShardCuts::of(shard_unit, g.type(x).cols());
  return g.add(kMatmulOp, {x}, std::move(attrs), std::move(name));
}

ValueId matmul_subtrees(Graph& g, ValueId x, const Parameter& weight, const kernels::ShardCuts& cuts,
                        std::string name) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->weights = {&weight};
  attrs->cuts = cuts;
  return g.add(kMatmulOp, {x}, std::move(attrs), std::move(name))[0];
}

ValueId quantize_rows(Graph& g, ValueId x, ActKind kind, std::string name) {
  return g.add(kQuantizeRowsOp, {x}, std::make_shared<QuantizeAttrs>(QuantizeAttrs{kind}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
