// Rows added to the rows of a table: what an embedding gets.
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/scatter.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  size_t rows;
};

// Inputs: x and ids, or the sum so far, x and ids.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const bool starts = node.inputs.size() == 2;
  const ValueType& x = g.type(node.inputs[starts ? 0 : 1]);
  expect_elem(g, node, node.inputs.back(), Elem::kI32);
  expect_equal(node, "rows", g.type(node.inputs.back()).rows(), x.rows());
  const ValueType out = floats(node.attrs<Attrs>().rows, x.cols());
  if (!starts) expect_equal(node, "bytes of the sum", out.bytes(), g.type(node.inputs[0]).bytes());
  return {out};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[node.inputs.size() - 2]);
  const uint64_t cleared = node.inputs.size() == 2 ? g.type(node.outputs[0]).bytes() : 0;
  return {.flops = x.rows() * x.cols(), .activation_bytes = 3 * x.bytes() + cleared};
}

// Threads take columns, so that rows with the same id are added in order.
void forward(const Node& node, const RunContext& run) {
  const bool starts = node.inputs.size() == 2;
  const ValueType& x = run.type(node.inputs[node.inputs.size() - 2]);
  const float* from = run.f32(node.inputs[node.inputs.size() - 2]);
  const int32_t* ids = run.i32(node.inputs.back());
  float* out = run.f32(node.outputs[0]);
  const ValueType& type = run.type(node.outputs[0]);
  if (starts || run.f32(node.inputs[0]) != out)
    run.for_rows(type.rows(), type.cols(), [&](size_t begin, size_t end) {
      float* to = out + begin * type.cols();
      const size_t bytes = (end - begin) * type.row_bytes();
      if (starts) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, run.f32(node.inputs[0]) + begin * type.cols(), bytes);
      }
    });
  run.for_rows(x.cols(), x.rows(), [&](size_t begin, size_t end) {
    kernels::scatter_add(from, {ids, x.rows()}, x.cols(), begin, end, out, type.rows());
  });
}

}  // namespace

extern const OpType kScatterRowsOp;
extern const OpType kScatterRowsAddOp;
const OpType kScatterRowsOp{"scatter_rows", infer, cost, nullptr, -1, forward};
const OpType kScatterRowsAddOp{"scatter_rows_add", infer, cost, nullptr, 0, forward};

ValueId scatter_rows(Graph& g, ValueId sum, ValueId x, ValueId ids, size_t rows, std::string name) {
  auto attrs = std::make_shared<Attrs>(Attrs{rows});
  if (!sum.valid()) return g.add(kScatterRowsOp, {x, ids}, std::move(attrs), std::move(name))[0];
  return g.add(kScatterRowsAddOp, {sum, x, ids}, std::move(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
