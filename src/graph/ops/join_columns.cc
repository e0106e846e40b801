// Columns of two values side by side, group by group, and the other way round: heads whose two parts are made
// apart, and what passes between stages where layers read more than the residual stream.
#include <algorithm>

#include "graph/gradients.h"
#include "graph/ops/op_util.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  size_t first, second;  // columns of either part of a group
};

std::vector<ValueType> infer_join(const Graph& g, const Node& node) {
  const auto& [first, second] = node.attrs<Attrs>();
  const ValueType &a = g.type(node.inputs[0]), &b = g.type(node.inputs[1]);
  for (const ValueId input : node.inputs) expect_elem(g, node, input, Elem::kF32);
  expect_equal(node, "rows", a.rows(), b.rows());
  expect_equal(node, "columns beyond whole groups", 0, first == 0 || second == 0 ? 1 : a.cols() % first);
  expect_equal(node, "columns of the second parts", a.cols() / first * second, b.cols());
  return {floats(a.rows(), a.cols() + b.cols())};
}

std::vector<ValueType> infer_split(const Graph& g, const Node& node) {
  const auto& [first, second] = node.attrs<Attrs>();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  const ValueType& x = g.type(node.inputs[0]);
  expect_equal(node, "columns beyond whole groups", 0,
               first == 0 || second == 0 ? 1 : x.cols() % (first + second));
  const size_t groups = x.cols() / (first + second);
  return {floats(x.rows(), groups * first), floats(x.rows(), groups * second)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) { return elementwise_cost(g, node, 0); }

// fn(both, first, second) for each group of each row.
template <typename F>
void each_group(const RunContext& run, const Attrs& attrs, ValueId both, ValueId first, ValueId second,
                F&& fn) {
  const size_t cols = run.type(both).cols(), size = attrs.first + attrs.second, groups = cols / size;
  run.for_rows(run.type(both).rows(), cols, [&](size_t begin, size_t end) {
    for (size_t i = begin * groups; i < end * groups; ++i)
      fn(run.f32(both) + i * size, run.f32(first) + i * attrs.first, run.f32(second) + i * attrs.second);
  });
}

void forward_join(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  each_group(run, attrs, node.outputs[0], node.inputs[0], node.inputs[1],
             [&](float* both, const float* first, const float* second) {
               std::copy_n(first, attrs.first, both);
               std::copy_n(second, attrs.second, both + attrs.first);
             });
}

void forward_split(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  each_group(run, attrs, node.inputs[0], node.outputs[0], node.outputs[1],
             [&](const float* both, float* first, float* second) {
               std::copy_n(both, attrs.first, first);
               std::copy_n(both + attrs.first, attrs.second, second);
             });
}

void backward_join(GradientBuilder& b, const Node& node) {
  const auto& [first, second] = node.attrs<Attrs>();
  const auto parts = split_columns(b.graph(), b.of(node.outputs[0]), first, second, node.name + ".grad");
  b.add(node.inputs[0], parts.first);
  b.add(node.inputs[1], parts.second);
}

// A part that nothing depends on has a gradient of zeros.
void backward_split(GradientBuilder& b, const Node& node) {
  const auto& [first, second] = node.attrs<Attrs>();
  ValueId parts[] = {b.of(node.outputs[0]), b.of(node.outputs[1])};
  for (size_t i = 0; i < 2; ++i)
    if (!parts[i].valid()) parts[i] = scale(b.graph(), node.outputs[i], 0, node.name + ".zeros");
  b.add(node.inputs[0], join_columns(b.graph(), parts[0], parts[1], first, second, node.name + ".grad"));
}

}  // namespace

extern const OpType kJoinColumnsOp;
extern const OpType kSplitColumnsOp;
const OpType kJoinColumnsOp{"join_columns", infer_join, cost,         nullptr, -1,
                            forward_join,   nullptr,    backward_join};
const OpType kSplitColumnsOp{"split_columns", infer_split, cost,          nullptr, -1,
                             forward_split,   nullptr,     backward_split};

ValueId join_columns(Graph& g, ValueId a, ValueId b, size_t first, size_t second, std::string name) {
  return g.add(kJoinColumnsOp, {a, b}, std::make_shared<Attrs>(Attrs{first, second}), std::move(name))[0];
}

std::pair<ValueId, ValueId> split_columns(Graph& g, ValueId x, size_t first, size_t second,
                                          std::string name) {
  const auto out =
      g.add(kSplitColumnsOp, {x}, std::make_shared<Attrs>(Attrs{first, second}), std::move(name));
  return {out[0], out[1]};
}

}  // namespace butterfly::graph
