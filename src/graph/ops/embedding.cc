// Rows of a table by token id, and rows of a value by index.
#include <cstring>

#include "graph/ops/op_util.h"
#include "kernels/gather.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* table;
};

std::vector<ValueType> infer_embedding(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kI32);
  const Tensor& table = node.attrs<Attrs>().table->value;
  expect_equal(node, "axes of the table", 2, table.rank());
  return {floats(g.type(node.inputs[0]).rows(), static_cast<size_t>(table.size(1)))};
}

Cost cost_embedding(const Graph& g, const Node& node, const CostContext&) {
  const Tensor& table = node.attrs<Attrs>().table->value;
  const uint64_t row_bytes = table.bytes() / static_cast<uint64_t>(table.size(0));
  return {.weight_bytes = row_bytes * g.type(node.inputs[0]).rows(),
          .activation_bytes = value_bytes(g, node)};
}

void forward_embedding(const Node& node, const RunContext& run) {
  const Tensor& table = node.attrs<Attrs>().table->value;
  const auto cols = static_cast<size_t>(table.size(1));
  const kernels::RowTable rows{table.dtype(), {table.raw(), table.bytes()}, cols};
  const int32_t* ids = run.i32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  run.for_rows(run.type(node.inputs[0]).rows(), cols, [&](size_t begin, size_t end) {
    kernels::gather_rows(rows, {ids + begin, end - begin}, out + begin * cols);
  });
}

std::vector<ValueType> infer_select(const Graph& g, const Node& node) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  return {floats(g.type(node.inputs[1]).rows(), g.type(node.inputs[0]).cols())};
}

Cost cost_select(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward_select(const Node& node, const RunContext& run) {
  const ValueType& out_type = run.type(node.outputs[0]);
  const size_t cols = out_type.cols();
  const int32_t* indices = run.i32(node.inputs[1]);
  for (size_t i = 0; i < out_type.rows(); ++i)
    std::memcpy(run.f32(node.outputs[0]) + i * cols,
                run.f32(node.inputs[0]) + static_cast<size_t>(indices[i]) * cols, cols * sizeof(float));
}

}  // namespace

extern const OpType kEmbeddingOp;
extern const OpType kSelectRowsOp;
const OpType kEmbeddingOp{"embedding", infer_embedding, cost_embedding, nullptr, -1, forward_embedding};
const OpType kSelectRowsOp{"select_rows", infer_select, cost_select, nullptr, -1, forward_select};

ValueId embedding(Graph& g, ValueId ids, const Parameter& table, std::string name) {
  return g.add(kEmbeddingOp, {ids}, std::make_shared<Attrs>(Attrs{&table}), std::move(name))[0];
}

ValueId select_rows(Graph& g, ValueId x, ValueId indices, std::string name) {
  return g.add(kSelectRowsOp, {x, indices}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
