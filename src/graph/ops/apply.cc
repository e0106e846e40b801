// Hands a value to a function of the caller at its place in the run: an optimizer takes a gradient as soon as
// it is complete, and its memory is free for the next.
#include "graph/ops/op_util.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  Apply function;
  Cost cost;
};

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  return {};
}

Cost cost(const Graph&, const Node& node, const CostContext&) { return node.attrs<Attrs>().cost; }

void forward(const Node& node, const RunContext& run) {
  node.attrs<Attrs>().function(run.f32(node.inputs[0]), run.pool());
}

}  // namespace

extern const OpType kApplyOp;
const OpType kApplyOp{"apply", infer, cost, nullptr, -1, forward};

void apply(Graph& g, ValueId value, Apply function, const Cost& cost, std::string name) {
  g.add(kApplyOp, {value}, std::make_shared<Attrs>(Attrs{std::move(function), cost}), std::move(name));
}

}  // namespace butterfly::graph
