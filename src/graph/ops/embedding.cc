// Rows of a table by token id, and rows of a value by index.
#include <cstring>

#include "graph/ops/grad_ops.h"
#include "kernels/rows/gather.h"

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
  const ValueType& x = g.type(node.inputs[0]);
  if (x.elem != Elem::kI32) expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  return {{x.elem, {static_cast<int64_t>(g.type(node.inputs[1]).rows()), static_cast<int64_t>(x.cols())}}};
}

Cost cost_select(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward_select(const Node& node, const RunContext& run) {
  const ValueType& out_type = run.type(node.outputs[0]);
  const size_t row_bytes = out_type.row_bytes();
  const int32_t* indices = run.i32(node.inputs[1]);
  for (size_t i = 0; i < out_type.rows(); ++i)
    std::memcpy(run.raw(node.outputs[0]) + i * row_bytes,
                run.raw(node.inputs[0]) + static_cast<size_t>(indices[i]) * row_bytes, row_bytes);
}

std::vector<const Parameter*> table_of(const Node& node) { return {node.attrs<Attrs>().table}; }

// A tied head has left its gradient by now: rows are added to it.
void backward_embedding(GradientBuilder& b, const Node& node) {
  const Parameter& table = *node.attrs<Attrs>().table;
  if (!b.wants(table)) return;
  b.replace(table, scatter_rows(b.graph(), b.sum_of(table), b.of(node.outputs[0]), node.inputs[0],
                                table.rows(), table.name + ".grad"));
}

void backward_select(GradientBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0];
  if (b.wants(x))
    b.set(x, scatter_rows(b.graph(), b.of(x), b.of(node.outputs[0]), node.inputs[1], b.graph().type(x).rows(),
                          node.name + ".grad"));
}

}  // namespace

extern const OpType kEmbeddingOp;
extern const OpType kSelectRowsOp;
const OpType kEmbeddingOp{"embedding", infer_embedding,   cost_embedding, nullptr,
                          -1,          forward_embedding, table_of,       backward_embedding};
const OpType kSelectRowsOp{"select_rows",  infer_select, cost_select,    nullptr, -1,
                           forward_select, nullptr,      backward_select};

ValueId embedding(Graph& g, ValueId ids, const Parameter& table, std::string name) {
  return g.add(kEmbeddingOp, {ids}, std::make_shared<Attrs>(Attrs{&table}), std::move(name))[0];
}

ValueId select_rows(Graph& g, ValueId x, ValueId indices, std::string name) {
  return g.add(kSelectRowsOp, {x, indices}, nullptr, std::move(name))[0];
}

}  // namespace butterfly::graph
