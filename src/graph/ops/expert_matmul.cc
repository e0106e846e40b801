// Products of rows, sorted by expert, with the matrices of those experts.
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"

namespace butterfly::graph {
namespace {

using kernels::kPanelRows;
using kernels::PackedMatrix;

struct GatherAttrs {
  size_t used;
};

std::vector<ValueType> infer_gather(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  const ValueType& x = g.type(node.inputs[0]);
  const size_t slots = g.type(node.inputs[1]).rows();
  expect_equal(node, "slots", x.rows() * node.attrs<GatherAttrs>().used, slots);
  return {{x.elem, {static_cast<int64_t>(slots), static_cast<int64_t>(x.cols())}}};
}

Cost cost_gather(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward_gather(const Node& node, const RunContext& run) {
  const size_t used = node.attrs<GatherAttrs>().used;
  const ValueType& type = run.type(node.outputs[0]);
  const size_t row_bytes = type.row_bytes();
  const int32_t* order = run.i32(node.inputs[1]);
  const std::byte* x = run.raw(node.inputs[0]);
  std::byte* out = run.raw(node.outputs[0]);
  run.for_rows(type.rows(), type.cols(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      std::memcpy(out + i * row_bytes, x + static_cast<size_t>(order[i]) / used * row_bytes, row_bytes);
  });
}

void backward_gather(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], gather_slots_grad(b.graph(), b.of(node.outputs[0]), node.inputs[1],
                                          node.attrs<GatherAttrs>().used, node.name + ".grad"));
}

struct Attrs {
  std::vector<const ExpertParameter*> weights;
  kernels::ShardCuts cuts;
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const ValueType& x = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  std::vector<ValueType> outputs;
  for (const ExpertParameter* weight : node.attrs<Attrs>().weights) {
    const size_t experts = g.type(node.inputs[1]).rows() - 1;
    if (weight->experts.empty() || weight->first + weight->experts.size() > experts)
      fail(Errc::kInvalidArgument, "[{}] {}: experts {} to {} of {}", node.op->name, node.name, weight->first,
           weight->first + weight->experts.size(), experts);
    expect_equal(node, "experts as of the first matrix", node.attrs<Attrs>().weights[0]->experts.size(),
                 weight->experts.size());
    expect_equal(node, "columns", weight->experts[0].cols(), x.cols());
    expect_elem(g, node, node.inputs[0], elem_of(weight->experts[0].act()));
    if (weight->bias) {
      expect_equal(node, "experts with a bias", weight->experts.size(),
                   static_cast<size_t>(weight->bias.size(0)));
      expect_equal(node, "columns of biases", weight->experts[0].rows(),
                   static_cast<size_t>(weight->bias.size(1)));
    }
    outputs.push_back(floats(x.rows(), weight->experts[0].rows()));
  }
  return outputs;
}

// Which experts are asked is known only at run time: as many as possible.
Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const size_t rows = g.type(node.inputs[0]).rows();
  Cost cost{.activation_bytes = value_bytes(g, node)};
  for (const ExpertParameter* weight : node.attrs<Attrs>().weights) {
    const PackedMatrix& one = weight->experts[0];
    cost.flops += 2 * rows * one.rows() * one.cols();
    cost.weight_bytes += one.bytes() * std::min(rows, weight->experts.size());
  }
  return cost;
}

// To columns [begin, end) of `rows` rows of expert `e`.
void add_bias(const Tensor& bias, size_t e, float* y, size_t rows, size_t begin, size_t end) {
  const auto cols = static_cast<size_t>(bias.size(1));
  const float* from = bias.data<float>() + e * cols;
  for (size_t row = 0; row < rows; ++row)
    kernels::add(y + row * cols + begin, from + begin, y + row * cols + begin, end - begin);
}

// Panels of all asked experts, matrix by matrix, stand in one line that the threads share.
void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  const auto& weights = attrs.weights;
  const ValueType& x = run.type(node.inputs[0]);
  const int32_t* begins = run.i32(node.inputs[1]) + weights[0]->first;
  const size_t experts = weights[0]->experts.size();
  const auto rows_of = [&](size_t e) { return static_cast<size_t>(begins[e + 1] - begins[e]); };
  size_t panels = 0;
  for (size_t e = 0; e < experts; ++e)
    for (const ExpertParameter* weight : weights)
      if (rows_of(e) > 0) panels += weight->experts[e].panels();
  run.pool().parallel_for(panels, 1, [&](size_t begin, size_t end) {
    size_t first = 0;
    for (size_t e = 0; e < experts && first < end; ++e) {
      if (rows_of(e) == 0) continue;
      const auto row = static_cast<size_t>(begins[e]);
      for (size_t i = 0; i < weights.size(); ++i) {
        const PackedMatrix& w = weights[i]->experts[e];
        const size_t from = std::max(begin, first), to = std::min(end, first + w.panels());
        if (from < to) {
          kernels::matmul_shards(w, attrs.cuts, run.raw(node.inputs[0]) + row * x.row_bytes(), x.row_bytes(),
                                 rows_of(e), run.f32(node.outputs[i]) + row * w.rows(), w.rows(), 0,
                                 (from - first) * kPanelRows, std::min((to - first) * kPanelRows, w.rows()));
          if (weights[i]->bias)
            add_bias(weights[i]->bias, e, run.f32(node.outputs[i]) + row * w.rows(), rows_of(e),
                     (from - first) * kPanelRows, std::min((to - first) * kPanelRows, w.rows()));
        }
        first += w.panels();
      }
    }
  });
}

// Experts are packed and so frozen: only the rows get a gradient.
void backward(GradientBuilder& b, const Node& node) {
  const auto& weights = node.attrs<Attrs>().weights;
  const ValueId x = node.inputs[0];
  for (size_t i = 0; i < weights.size(); ++i) {
    const ValueId dy = b.of(node.outputs[i]);
    if (dy.valid() && b.wants(x))
      b.set(x,
            expert_matmul_dx(b.graph(), dy, node.inputs[1], *weights[i], b.of(x), weights[i]->name + ".dx"));
  }
}

}  // namespace

extern const OpType kGatherSlotsOp;
extern const OpType kExpertMatmulOp;
const OpType kGatherSlotsOp{"gather_slots", infer_gather, cost_gather,    nullptr, -1,
                            forward_gather, nullptr,      backward_gather};
const OpType kExpertMatmulOp{"expert_matmul", infer, cost, nullptr, -1, forward, nullptr, backward};

ValueId gather_slots(Graph& g, ValueId x, const MoeRoute& route, std::string name) {
  return g.add(kGatherSlotsOp, {x, route.order}, std::make_shared<GatherAttrs>(GatherAttrs{route.used}),
               std::move(name))[0];
}

std::vector<ValueId> expert_matmul(Graph& g, ValueId x, const MoeRoute& route,
                                   std::span<const ExpertParameter* const> weights, std::string name,
                                   size_t shard_unit) {
  auto attrs = std::make_shared<Attrs>();
  attrs->weights.assign(weights.begin(), weights.end());
  attrs->cuts = kernels::ShardCuts::of(shard_unit, g.type(x).cols());
  return g.add(kExpertMatmulOp, {x, route.begins}, std::move(attrs), std::move(name));
}

}  // namespace butterfly::graph
