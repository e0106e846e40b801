// The backward pass of a mixture of experts: what rows get back from their slots, what experts' rows get from
// the weighted sum, and what the router's logits get from the weights. Choosing has no slope: a row's experts
// stay the ones it went to.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/matmul_dx.h"
#include "kernels/math/math.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

struct SlotsAttrs {
  size_t used;
};

// Inputs: the gradient of every place, and the slot at each place.
std::vector<ValueType> infer_slots(const Graph& g, const Node& node) {
  const ValueType& dy = g.type(node.inputs[0]);
  expect_equal(node, "slots", g.type(node.inputs[1]).rows(), dy.rows());
  return {floats(dy.rows() / node.attrs<SlotsAttrs>().used, dy.cols())};
}

Cost cost_slots(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = g.type(node.inputs[0]).rows() * g.type(node.inputs[0]).cols(),
          .activation_bytes = value_bytes(g, node)};
}

// Threads take columns; a row's slots are added in order of their experts.
void forward_slots(const Node& node, const RunContext& run) {
  const size_t used = node.attrs<SlotsAttrs>().used;
  const ValueType& dy = run.type(node.inputs[0]);
  const size_t cols = dy.cols(), rows = dy.rows() / used;
  const float* from = run.f32(node.inputs[0]);
  const int32_t* order = run.i32(node.inputs[1]);
  float* dx = run.f32(node.outputs[0]);
  run.for_rows(cols, dy.rows(), [&](size_t begin, size_t end) {
    for (size_t row = 0; row < rows; ++row) std::fill(dx + row * cols + begin, dx + row * cols + end, 0.0f);
    for (size_t place = 0; place < dy.rows(); ++place) {
      float* to = dx + static_cast<size_t>(order[place]) / used * cols + begin;
      kernels::add(to, from + place * cols + begin, to, end - begin);
    }
  });
}

struct ExpertAttrs {
  const ExpertParameter* weight;
};

// Inputs: dy and the experts' first places, with the sum so far in front or without.
std::vector<ValueType> infer_experts(const Graph& g, const Node& node) {
  const ExpertParameter& weight = *node.attrs<ExpertAttrs>().weight;
  const ValueType& dy = g.type(node.inputs[node.inputs.size() - 2]);
  if (weight.first != 0 || weight.experts.size() + 1 != g.type(node.inputs.back()).rows())
    fail(Errc::kUnsupported, "[{}] {}: gradients need all experts, found {} from {} on", node.op->name,
         node.name, weight.experts.size(), weight.first);
  expect_equal(node, "columns", weight.experts[0].rows(), dy.cols());
  return {floats(dy.rows(), weight.experts[0].cols())};
}

Cost cost_experts(const Graph& g, const Node& node, const CostContext&) {
  const ExpertParameter& weight = *node.attrs<ExpertAttrs>().weight;
  const size_t rows = g.type(node.inputs[node.inputs.size() - 2]).rows();
  const kernels::PackedMatrix& one = weight.experts[0];
  return {.flops = 2 * rows * one.rows() * one.cols(),
          .weight_bytes = one.bytes() * std::min(rows, weight.experts.size()),
          .activation_bytes = value_bytes(g, node)};
}

void forward_experts(const Node& node, const RunContext& run) {
  const ExpertParameter& weight = *node.attrs<ExpertAttrs>().weight;
  const ValueId from = node.inputs[node.inputs.size() - 2];
  const float* dy = run.f32(from);
  const size_t out = run.type(from).cols(), in = weight.experts[0].cols();
  const int32_t* begins = run.i32(node.inputs.back());
  float* dx = run.f32(node.outputs[0]);
  const bool accumulate = node.inputs.size() == 3;
  if (accumulate && run.f32(node.inputs[0]) != dx)
    std::memcpy(dx, run.f32(node.inputs[0]), run.type(node.inputs[0]).bytes());
  for (size_t e = 0; e < weight.experts.size(); ++e) {
    const auto first = static_cast<size_t>(begins[e]), rows = static_cast<size_t>(begins[e + 1]) - first;
    kernels::matmul_dx(weight.experts[e], dy + first * out, out, rows, dx + first * in, in, accumulate,
                       run.pool());
  }
}

// Inputs: the gradient of the sums, the experts' rows, the weights, the place of each slot. Outputs: the
// gradients of the experts' rows and of the weights.
std::vector<ValueType> infer_combine(const Graph& g, const Node& node) {
  return {g.type(node.inputs[1]), g.type(node.inputs[2])};
}

Cost cost_combine(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& y = g.type(node.inputs[1]);
  return {.flops = 3 * y.rows() * y.cols(), .activation_bytes = value_bytes(g, node)};
}

void forward_combine(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.inputs[0]);
  const size_t cols = type.cols(), used = run.type(node.inputs[2]).cols();
  const float* dout = run.f32(node.inputs[0]);
  const float* y = run.f32(node.inputs[1]);
  const float* weights = run.f32(node.inputs[2]);
  const int32_t* places = run.i32(node.inputs[3]);
  float* dy = run.f32(node.outputs[0]);
  float* dweights = run.f32(node.outputs[1]);
  run.for_rows(type.rows(), cols * used, [&](size_t begin, size_t end) {
    for (size_t slot = begin * used; slot < end * used; ++slot) {
      const size_t place = static_cast<size_t>(places[slot]) * cols;
      const float* row = dout + slot / used * cols;
      dweights[slot] = kernels::dot(row, y + place, cols);
      kernels::scale(row, weights[slot], dy + place, cols);
    }
  });
}

struct RouteAttrs {
  RouteOptions options;
  const Parameter* scale;  // of each expert; null: none
};

// Inputs: logits, the gradient of the weights, the place of each slot, the experts' first places.
std::vector<ValueType> infer_route(const Graph& g, const Node& node) { return {g.type(node.inputs[0])}; }

Cost cost_route(const Graph& g, const Node& node, const CostContext&) {
  return elementwise_cost(g, node, 12);
}

size_t scratch_route(const Graph& g, const Node& node) {
  const size_t used = node.attrs<RouteAttrs>().options.used;
  return (g.type(node.inputs[0]).cols() + 4 * used) * sizeof(float);
}

// What a probability gets: weights are probabilities, divided by their sum or not, times a scale.
void probability_gradients(const RouteOptions& options, const float* chosen, const float* dweights,
                           float* dchosen) {
  float sum = 0, weighed = 0;
  for (size_t s = 0; s < options.used; ++s) sum += chosen[s];
  const bool divided = options.normalise && sum >= 0x1p-14f;
  const float divisor = !options.normalise ? 1.0f : divided ? sum : 0x1p-14f;
  if (divided)
    for (size_t s = 0; s < options.used; ++s) weighed += dweights[s] * (chosen[s] / sum);
  for (size_t s = 0; s < options.used; ++s)
    dchosen[s] = options.scale / divisor * (dweights[s] - (divided ? weighed : 0.0f));
}

// One row. `chosen`: room for the probabilities of the chosen experts, and for their gradients behind them.
void route_row_grad(const RouteOptions& options, const float* logits, const float* dweights,
                    const int32_t* ids, size_t experts, float* probabilities, float* chosen, float* dlogits) {
  const size_t used = options.used;
  float* dchosen = chosen + used;
  std::fill(dlogits, dlogits + experts, 0.0f);
  if (options.by == RouteBy::kSoftmax) {
    std::copy(logits, logits + experts, probabilities);
    kernels::softmax(probabilities, experts);
  }
  for (size_t s = 0; s < used; ++s) {
    const float x = logits[ids[s]];
    chosen[s] = options.by == RouteBy::kSoftmax        ? probabilities[ids[s]]
                : options.by == RouteBy::kSigmoid      ? kernels::sigmoid_f32(x)
                : options.by == RouteBy::kSqrtSoftplus ? std::sqrt(kernels::softplus_f32(x))
                                                       : x;
  }
  if (options.by == RouteBy::kSoftmaxOfChosen) kernels::softmax(chosen, used);
  probability_gradients(options, chosen, dweights, dchosen);
  // Of a softmax: what the others get is less the same mean.
  float mean = 0;
  for (size_t s = 0; s < used; ++s) mean += chosen[s] * dchosen[s];
  switch (options.by) {
    case RouteBy::kSoftmax:
      for (size_t e = 0; e < experts; ++e) dlogits[e] = -(probabilities[e] * mean);
      [[fallthrough]];
    case RouteBy::kSoftmaxOfChosen:
      for (size_t s = 0; s < used; ++s) dlogits[ids[s]] = chosen[s] * (dchosen[s] - mean);
      return;
    case RouteBy::kSigmoid:
      for (size_t s = 0; s < used; ++s) dlogits[ids[s]] = chosen[s] * (1.0f - chosen[s]) * dchosen[s];
      return;
    case RouteBy::kSqrtSoftplus:
      for (size_t s = 0; s < used; ++s)
        dlogits[ids[s]] =
            chosen[s] == 0 ? 0.0f : kernels::sigmoid_f32(logits[ids[s]]) / (2.0f * chosen[s]) * dchosen[s];
      return;
  }
}

void forward_route(const Node& node, const RunContext& run) {
  const RouteOptions& options = node.attrs<RouteAttrs>().options;
  const ValueType& type = run.type(node.inputs[0]);
  const size_t experts = type.cols(), used = options.used;
  const float* logits = run.f32(node.inputs[0]);
  const float* dweights = run.f32(node.inputs[1]);
  const int32_t* places = run.i32(node.inputs[2]);
  const int32_t* begins = run.i32(node.inputs[3]);
  auto* probabilities = reinterpret_cast<float*>(run.scratch(node, 0));
  float* chosen = probabilities + experts;
  auto* ids = reinterpret_cast<int32_t*>(chosen + 2 * used);
  auto* slopes = reinterpret_cast<float*>(ids + used);
  const Parameter* scale = node.attrs<RouteAttrs>().scale;
  for (size_t row = 0; row < type.rows(); ++row) {
    for (size_t s = 0; s < used; ++s)
      ids[s] = static_cast<int32_t>(std::upper_bound(begins, begins + experts + 1, places[row * used + s]) -
                                    begins - 1);
    for (size_t s = 0; s < used; ++s)
      slopes[s] = dweights[row * used + s] * (scale == nullptr ? 1.0f : scale->value.data<float>()[ids[s]]);
    route_row_grad(options, logits + row * experts, slopes, ids, experts, probabilities, chosen,
                   run.f32(node.outputs[0]) + row * experts);
  }
}

}  // namespace

extern const OpType kGatherSlotsGradOp;
extern const OpType kExpertMatmulDxOp;
extern const OpType kExpertMatmulDxAddOp;
extern const OpType kMoeCombineGradOp;
extern const OpType kMoeRouteGradOp;
const OpType kGatherSlotsGradOp{"gather_slots_grad", infer_slots, cost_slots, nullptr, -1, forward_slots};
const OpType kExpertMatmulDxOp{"expert_matmul_dx", infer_experts, cost_experts, nullptr, -1, forward_experts};
const OpType kExpertMatmulDxAddOp{"expert_matmul_dx_add", infer_experts, cost_experts, nullptr, 0,
                                  forward_experts};
const OpType kMoeCombineGradOp{"moe_combine_grad", infer_combine, cost_combine, nullptr, -1, forward_combine};
const OpType kMoeRouteGradOp{"moe_route_grad", infer_route, cost_route, scratch_route, -1, forward_route};

ValueId gather_slots_grad(Graph& g, ValueId dy, ValueId order, size_t used, std::string name) {
  return g.add(kGatherSlotsGradOp, {dy, order}, std::make_shared<SlotsAttrs>(SlotsAttrs{used}),
               std::move(name))[0];
}

ValueId expert_matmul_dx(Graph& g, ValueId dy, ValueId begins, const ExpertParameter& weight, ValueId sum,
                         std::string name) {
  auto attrs = std::make_shared<ExpertAttrs>(ExpertAttrs{&weight});
  if (!sum.valid()) return g.add(kExpertMatmulDxOp, {dy, begins}, std::move(attrs), std::move(name))[0];
  return g.add(kExpertMatmulDxAddOp, {sum, dy, begins}, std::move(attrs), std::move(name))[0];
}

CombineGradients moe_combine_grad(Graph& g, ValueId dout, ValueId y, ValueId weights, ValueId places,
                                  std::string name) {
  const auto out = g.add(kMoeCombineGradOp, {dout, y, weights, places}, nullptr, std::move(name));
  return {out[0], out[1]};
}

ValueId moe_route_grad(Graph& g, ValueId logits, ValueId dweights, ValueId places, ValueId begins,
                       const RouteOptions& options, const Parameter* expert_scale, std::string name) {
  return g.add(kMoeRouteGradOp, {logits, dweights, places, begins},
               std::make_shared<RouteAttrs>(RouteAttrs{options, expert_scale}), std::move(name))[0];
}

}  // namespace butterfly::graph
