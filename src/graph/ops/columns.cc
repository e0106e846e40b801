// Some columns of every row: neighbours, or several ranges of them one behind the other.
#include <algorithm>

#include "base/error.h"
#include "graph/gradients.h"
#include "graph/ops/op_util.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  std::vector<MemberRange> ranges;
  size_t cols;  // of the rows they are taken from
  size_t count() const {
    size_t sum = 0;
    for (const MemberRange& range : ranges) sum += range.count();
    return sum;
  }
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  for (const auto& [begin, end] : attrs.ranges)
    if (begin > end || end > x.cols())
      fail(Errc::kInvalidArgument, "[{}] {}: columns {} to {} of {}", node.op->name, node.name, begin, end,
           x.cols());
  return {floats(x.rows(), attrs.count())};
}

// The gradient of the chosen columns.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  expect_equal(node, "columns", attrs.count(), g.type(node.inputs[0]).cols());
  return {floats(g.type(node.inputs[0]).rows(), attrs.cols)};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward(const Node& node, const RunContext& run) {
  const ValueType& x = run.type(node.inputs[0]);
  const float* from = run.f32(node.inputs[0]);
  float* to = run.f32(node.outputs[0]);
  for (size_t row = 0; row < x.rows(); ++row)
    for (const auto& [begin, end] : node.attrs<Attrs>().ranges)
      to = std::copy_n(from + row * x.cols() + begin, end - begin, to);
}

// A column may be in several ranges.
void forward_grad(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const float* from = run.f32(node.inputs[0]);
  float* to = run.f32(node.outputs[0]);
  for (size_t row = 0; row < run.type(node.inputs[0]).rows(); ++row, to += attrs.cols) {
    std::fill_n(to, attrs.cols, 0.0f);
    for (const auto& [begin, end] : attrs.ranges)
      for (size_t i = begin; i < end; ++i) to[i] += *from++;
  }
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kColumnsOp;
extern const OpType kColumnsGradOp;
const OpType kColumnsOp{"columns", infer, cost, nullptr, -1, forward, nullptr, backward};
const OpType kColumnsGradOp{"columns_grad", infer_grad, cost, nullptr, -1, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  b.add(node.inputs[0],
        b.graph().add(kColumnsGradOp, {b.of(node.outputs[0])}, node.attributes, node.name + ".grad")[0]);
}

}  // namespace

ValueId columns(Graph& g, ValueId x, std::span<const MemberRange> ranges, std::string name) {
  return g.add(kColumnsOp, {x},
               std::make_shared<Attrs>(Attrs{{ranges.begin(), ranges.end()}, g.type(x).cols()}),
               std::move(name))[0];
}

ValueId columns(Graph& g, ValueId x, size_t begin, size_t count, std::string name) {
  const MemberRange range{begin, begin + count};
  return columns(g, x, {&range, 1}, std::move(name));
}

}  // namespace butterfly::graph
