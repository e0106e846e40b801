// Which experts a row goes to, and the weighted sum of what they say.
//
// For each row: softmax over all experts; the k most probable, by probability and then by number; their
// probabilities divided by their sum (not below 2^-14, as llama.cpp), times `scale`. The sum of the experts'
// rows runs in that order too: y = w0 * e0, then one rounding for each further expert. Nothing of this
// depends on the other rows.
#include <algorithm>
#include <numeric>

#include "graph/ops/op_util.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

struct RouteAttrs {
  size_t used;
  float scale;
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
  const size_t used = node.attrs<RouteAttrs>().used;
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
  return g.type(node.inputs[0]).cols() * (sizeof(float) + sizeof(int32_t));
}

// The best `used` experts of one row and their weights.
void route_row(const RouteAttrs& attrs, const float* logits, size_t experts, float* probabilities,
               int32_t* ids, float* weights, int32_t* chosen) {
  std::copy(logits, logits + experts, probabilities);
  kernels::softmax(probabilities, experts);
  std::iota(ids, ids + experts, 0);
  const auto better = [&](int32_t a, int32_t b) {
    return probabilities[a] > probabilities[b] || (probabilities[a] == probabilities[b] && a < b);
  };
  // NaN compares with nothing, so that any order is consistent: experts stay in order of number.
  if (probabilities[0] == probabilities[0]) std::partial_sort(ids, ids + attrs.used, ids + experts, better);
  float sum = 0;
  for (size_t s = 0; s < attrs.used; ++s) {
    chosen[s] = ids[s];
    weights[s] = probabilities[ids[s]];
    sum += weights[s];
  }
  const float divisor = sum < 0x1p-14f ? 0x1p-14f : sum;
  for (size_t s = 0; s < attrs.used; ++s) weights[s] = weights[s] / divisor * attrs.scale;
}

// Then slots are sorted by expert, keeping the order of rows, so that each expert multiplies its rows at
// once.
void forward_route(const Node& node, const RunContext& run) {
  const RouteAttrs& attrs = node.attrs<RouteAttrs>();
  const ValueType& type = run.type(node.inputs[0]);
  const size_t experts = type.cols(), slots = type.rows() * attrs.used;
  int32_t* places = run.i32(node.outputs[1]);  // holds the chosen experts first
  int32_t* order = run.i32(node.outputs[2]);
  int32_t* begins = run.i32(node.outputs[3]);
  auto* probabilities = reinterpret_cast<float*>(run.scratch(node, 0));
  auto* ids = reinterpret_cast<int32_t*>(probabilities + experts);
  for (size_t row = 0; row < type.rows(); ++row)
    route_row(attrs, run.f32(node.inputs[0]) + row * experts, experts, probabilities, ids,
              run.f32(node.outputs[0]) + row * attrs.used, places + row * attrs.used);
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

}  // namespace

extern const OpType kMoeRouteOp;
extern const OpType kMoeCombineOp;
const OpType kMoeRouteOp{"moe_route", infer_route, cost_route, scratch_route, -1, forward_route};
const OpType kMoeCombineOp{"moe_combine", infer_combine, cost_combine, nullptr, -1, forward_combine};

MoeRoute moe_route(Graph& g, ValueId logits, size_t used, float scale, std::string name) {
  const auto out =
      g.add(kMoeRouteOp, {logits}, std::make_shared<RouteAttrs>(RouteAttrs{used, scale}), std::move(name));
  return {out[0], out[1], out[2], out[3], used};
}

ValueId moe_combine(Graph& g, ValueId y, const MoeRoute& route, std::string name) {
  return g.add(kMoeCombineOp, {y, route.weights, route.places}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
