// Which experts a row goes to, and the weighted sum of what they say.
//
// For each row: a probability for each expert (softmax over all, sigmoid, or the root of softplus); the k
// with the most, by probability plus selection bias and then by number; their probabilities divided by their
// sum (not below 2^-14, as llama.cpp), times `scale` and the expert's own scale. Or the k largest logits, and
// a softmax over those. With groups only the best ones are looked at, by the sum of their two best experts.
// The sum of the experts' rows runs in that order too: y = w0 * e0, then one rounding for each further
// expert. Nothing of this depends on the other rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/math/math.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

struct RouteAttrs {
  RouteOptions options;
  const Parameter* bias;   // null: none
  const Parameter* scale;  // the same
};

ValueType integers(std::initializer_list<size_t> sizes) {
  Shape shape = sizes.size() == 1
                    ? Shape{static_cast<int64_t>(*sizes.begin())}
                    : Shape{static_cast<int64_t>(*sizes.begin()), static_cast<int64_t>(*(sizes.begin() + 1))};
  return {Elem::kI32, shape};
}

std::vector<ValueType> infer_route(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ValueType& logits = g.type(node.inputs[0]);
  const auto& [options, bias, scale] = node.attrs<RouteAttrs>();
  const size_t used = options.used;
  if (bias != nullptr)
    expect_equal(node, "selection biases", logits.cols(), static_cast<size_t>(bias->value.count()));
  if (scale != nullptr)
    expect_equal(node, "scales of experts", logits.cols(), static_cast<size_t>(scale->value.count()));
  if (options.groups > 0) {
    expect_equal(node, "experts beyond whole groups", 0, logits.cols() % options.groups);
    if (options.groups_used == 0 || options.groups_used > options.groups ||
        used > options.groups_used * (logits.cols() / options.groups))
      fail(Errc::kInvalidArgument, "[{}] {}: {} of {} groups do not have {} experts", node.op->name,
           node.name, options.groups_used, options.groups, used);
  }
  if (used == 0 || used > logits.cols())
    fail(Errc::kInvalidArgument, "[{}] {}: expected 1 to {} experts per row, found {}", node.op->name,
         node.name, logits.cols(), used);
  const size_t slots = logits.rows() * used;
  return {floats(logits.rows(), used), integers({logits.rows(), used}), integers({slots}),
          integers({logits.cols() + 1})};
}

Cost cost_route(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& logits = g.type(node.inputs[0]);
  return {.flops = 10 * logits.rows() * logits.cols(), .activation_bytes = value_bytes(g, node)};
}

size_t scratch_route(const Graph& g, const Node& node) {
  return g.type(node.inputs[0]).cols() * (2 * sizeof(float) + sizeof(int32_t));
}

void to_probabilities(RouteBy by, float* values, size_t count) {
  switch (by) {
    case RouteBy::kSoftmax:
      return kernels::softmax(values, count);
    case RouteBy::kSigmoid:
      return kernels::sigmoid(values, values, count);
    case RouteBy::kSqrtSoftplus:
      for (size_t i = 0; i < count; ++i) values[i] = std::sqrt(kernels::softplus_f32(values[i]));
      return;
    case RouteBy::kSoftmaxOfChosen:
      return;  // the logits themselves
  }
}

// Experts outside of the best groups are out of the question.
void keep_best_groups(const RouteOptions& options, float* scores, size_t experts) {
  const size_t size = experts / options.groups;
  std::vector<std::pair<float, size_t>> groups;  // the larger, the better; then by number
  for (size_t group = 0; group < options.groups; ++group) {
    float best = -INFINITY, second = -INFINITY;
    for (size_t e = group * size; e < (group + 1) * size; ++e) {
      second = std::max(second, std::min(best, scores[e]));
      best = std::max(best, scores[e]);
    }
    groups.emplace_back(size == 1 ? best : best + second, group);
  }
  std::ranges::sort(groups, [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  for (size_t i = options.groups_used; i < groups.size(); ++i)
    std::fill_n(scores + groups[i].second * size, size, -INFINITY);
}

// The best `used` experts of one row and their weights.
void route_row(const RouteAttrs& attrs, const float* logits, size_t experts, float* probabilities,
               float* scores, int32_t* ids, float* weights, int32_t* chosen) {
  const RouteOptions& options = attrs.options;
  std::copy(logits, logits + experts, probabilities);
  to_probabilities(options.by, probabilities, experts);
  std::copy(probabilities, probabilities + experts, scores);
  if (attrs.bias != nullptr) kernels::add(scores, attrs.bias->value.data<float>(), scores, experts);
  std::iota(ids, ids + experts, 0);
  const auto better = [&](int32_t a, int32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  // NaN compares with nothing, so that any order is consistent: experts stay in order of number.
  if (std::none_of(scores, scores + experts, [](float score) { return score != score; })) {
    if (options.groups > 0) keep_best_groups(options, scores, experts);
    std::partial_sort(ids, ids + options.used, ids + experts, better);
  }
  for (size_t s = 0; s < options.used; ++s) {
    chosen[s] = ids[s];
    weights[s] = probabilities[ids[s]];
  }
  if (options.by == RouteBy::kSoftmaxOfChosen) kernels::softmax(weights, options.used);
  float sum = 0;
  for (size_t s = 0; s < options.used; ++s) sum += weights[s];
  const float divisor = !options.normalise ? 1.0f : sum < 0x1p-14f ? 0x1p-14f : sum;
  for (size_t s = 0; s < options.used; ++s) weights[s] = weights[s] / divisor * options.scale;
  if (attrs.scale != nullptr)
    for (size_t s = 0; s < options.used; ++s) weights[s] *= attrs.scale->value.data<float>()[chosen[s]];
}

// Then slots are sorted by expert, keeping the order of rows, so that each expert multiplies its rows at
// once.
void forward_route(const Node& node, const RunContext& run) {
  const RouteAttrs& attrs = node.attrs<RouteAttrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const size_t experts = type.cols(), used = attrs.options.used, slots = type.rows() * used;
  int32_t* places = run.i32(node.outputs[1]);  // holds the chosen experts first
  int32_t* order = run.i32(node.outputs[2]);
  int32_t* begins = run.i32(node.outputs[3]);
  auto* probabilities = reinterpret_cast<float*>(run.scratch(node, 0));
  float* scores = probabilities + experts;
  auto* ids = reinterpret_cast<int32_t*>(scores + experts);
  for (size_t row = 0; row < type.rows(); ++row)
    route_row(attrs, run.f32(node.inputs[0]) + row * experts, experts, probabilities, scores, ids,
              run.f32(node.outputs[0]) + row * used, places + row * used);
  std::fill(begins, begins + experts + 1, 0);
  for (size_t slot = 0; slot < slots; ++slot) ++begins[places[slot] + 1];
  for (size_t e = 0; e < experts; ++e) begins[e + 1] += begins[e];
  std::copy(begins, begins + experts, ids);
  for (size_t slot = 0; slot < slots; ++slot) {
    const int32_t place = ids[places[slot]]++;
    order[place] = static_cast<int32_t>(slot);
    places[slot] = place;
  }
}

void backward_route(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0], moe_route_grad(b.graph(), node.inputs[0], b.of(node.outputs[0]), node.outputs[1],
                                       node.outputs[3], node.attrs<RouteAttrs>().options,
                                       node.attrs<RouteAttrs>().scale, node.name + ".grad"));
}

std::vector<ValueType> infer_combine(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ValueType& weights = g.type(node.inputs[1]);
  expect_equal(node, "rows", weights.rows() * weights.cols(), g.type(node.inputs[0]).rows());
  return {floats(weights.rows(), g.type(node.inputs[0]).cols())};
}

Cost cost_combine(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& y = g.type(node.inputs[0]);
  return {.flops = 2 * y.rows() * y.cols(), .activation_bytes = value_bytes(g, node)};
}

void forward_combine(const Node& node, const RunContext& run) {
  const ValueType& type = run.type(node.outputs[0]);
  const size_t cols = type.cols(), used = run.type(node.inputs[1]).cols();
  const float* y = run.f32(node.inputs[0]);
  const float* weights = run.f32(node.inputs[1]);
  const int32_t* places = run.i32(node.inputs[2]);
  float* out = run.f32(node.outputs[0]);
  run.for_rows(type.rows(), cols * used, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      for (size_t s = 0; s < used; ++s) {
        const size_t slot = row * used + s;
        const float* expert = y + static_cast<size_t>(places[slot]) * cols;
        float* to = out + row * cols;
        if (s == 0) {
          kernels::scale(expert, weights[slot], to, cols);
        } else {
          kernels::add_scaled(to, expert, weights[slot], to, cols);
        }
      }
  });
}

void backward_combine(GradientBuilder& b, const Node& node) {
  const CombineGradients gradients = moe_combine_grad(b.graph(), b.of(node.outputs[0]), node.inputs[0],
                                                      node.inputs[1], node.inputs[2], node.name + ".grad");
  b.add(node.inputs[0], gradients.dy);
  b.add(node.inputs[1], gradients.dweights);
}

}  // namespace

extern const OpType kMoeRouteOp;
extern const OpType kMoeCombineOp;
const OpType kMoeRouteOp{"moe_route", infer_route,   cost_route, scratch_route,
                         -1,          forward_route, nullptr,    backward_route};
const OpType kMoeCombineOp{"moe_combine",   infer_combine, cost_combine,    nullptr, -1,
                           forward_combine, nullptr,       backward_combine};

MoeRoute moe_route(Graph& g, ValueId logits, const RouteOptions& options, const Parameter& selection_bias,
                   const Parameter& expert_scale, std::string name) {
  const RouteAttrs attrs{options, selection_bias ? &selection_bias : nullptr,
                         expert_scale ? &expert_scale : nullptr};
  const auto out = g.add(kMoeRouteOp, {logits}, std::make_shared<RouteAttrs>(attrs), std::move(name));
  return {out[0], out[1], out[2], out[3], options.used};
}

ValueId moe_combine(Graph& g, ValueId y, const MoeRoute& route, std::string name) {
  return g.add(kMoeCombineOp, {y, route.weights, route.places}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
