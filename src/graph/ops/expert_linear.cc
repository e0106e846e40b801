// Products of rows, sorted by expert, with plain float matrices of those experts, and the two products of
// their backward pass. Experts are independent: threads take whole ones.
#include "graph/expert_linear.h"

#include <algorithm>
#include <atomic>

#include "graph/ops/grad_ops.h"
#include "kernels/gemm/gemm.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  const Parameter* weight;  // [experts, out, in]
  size_t first;
  size_t shard_unit;  // of the forward product
  size_t experts() const { return static_cast<size_t>(weight->value.size(0)); }
  size_t out() const { return static_cast<size_t>(weight->value.size(1)); }
  size_t in() const { return static_cast<size_t>(weight->value.size(2)); }
  float* matrix(size_t e) const { return weight->value.data<float>() + e * out() * in(); }
};

void check_weight(const Graph& g, const Node& node, size_t columns) {
  const auto& attrs = node.attrs<Attrs>();
  const Tensor& value = attrs.weight->value;
  if (value.dtype() != DType::kF32 || value.rank() != 3 || !value.contiguous())
    fail(Errc::kInvalidArgument, "[{}] {}: expected matrices of type F32, found {} {}", node.op->name,
         attrs.weight->name, dtype_name(value.dtype()), value.shape().to_string());
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, node.inputs[1], Elem::kI32);
  expect_equal(node, "columns", columns, g.type(node.inputs[0]).cols());
  const size_t all = g.type(node.inputs[1]).rows() - 1;
  if (attrs.first + attrs.experts() > all)
    fail(Errc::kInvalidArgument, "[{}] {}: experts {} to {} of {}", node.op->name, node.name, attrs.first,
         attrs.first + attrs.experts(), all);
}

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  check_weight(g, node, attrs.in());
  return {floats(g.type(node.inputs[0]).rows(), attrs.out())};
}

std::vector<ValueType> infer_dx(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  check_weight(g, node, attrs.out());
  return {floats(g.type(node.inputs[0]).rows(), attrs.in())};
}

// Inputs: dy, the experts' first places, x.
std::vector<ValueType> infer_dw(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<Attrs>();
  check_weight(g, node, attrs.out());
  expect_equal(node, "columns of rows", attrs.in(), g.type(node.inputs[2]).cols());
  return {{Elem::kF32, attrs.weight->value.shape()}};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t rows = g.type(node.inputs[0]).rows();
  return {.flops = 2 * rows * attrs.out() * attrs.in(),
          .weight_bytes = std::min(rows, attrs.experts()) * attrs.out() * attrs.in() * sizeof(float),
          .activation_bytes = value_bytes(g, node)};
}

// fn(expert that is here, its first row, its rows), shared out over the pool.
template <typename F>
void each_expert(const Node& node, const RunContext& run, F&& fn) {
  const auto& attrs = node.attrs<Attrs>();
  const int32_t* begins = run.i32(node.inputs[1]) + attrs.first;
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t) {
    for (size_t e = next.fetch_add(1); e < attrs.experts(); e = next.fetch_add(1))
      fn(e, static_cast<size_t>(begins[e]), static_cast<size_t>(begins[e + 1] - begins[e]));
  });
}

// Rows of experts that are elsewhere.
void clear_others(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const ValueType& type = run.type(node.outputs[0]);
  const int32_t* begins = run.i32(node.inputs[1]) + attrs.first;
  float* out = run.f32(node.outputs[0]);
  std::fill_n(out, static_cast<size_t>(begins[0]) * type.cols(), 0.0f);
  std::fill(out + static_cast<size_t>(begins[attrs.experts()]) * type.cols(), out + type.rows() * type.cols(),
            0.0f);
}

void forward(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t in = attrs.in(), out = attrs.out();
  clear_others(node, run);
  each_expert(node, run, [&](size_t e, size_t row, size_t rows) {
    if (rows == 0) return;
    kernels::gemm({.m = rows,
                   .n = out,
                   .k = in,
                   .a = {run.f32(node.inputs[0]) + row * in, in},
                   .b = {attrs.matrix(e), in, true},
                   .c = run.f32(node.outputs[0]) + row * out,
                   .c_stride = out,
                   .shard_unit = attrs.shard_unit});
  });
}

void forward_dx(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t in = attrs.in(), out = attrs.out();
  clear_others(node, run);
  each_expert(node, run, [&](size_t e, size_t row, size_t rows) {
    if (rows == 0) return;
    kernels::gemm({.m = rows,
                   .n = in,
                   .k = out,
                   .a = {run.f32(node.inputs[0]) + row * out, out},
                   .b = {attrs.matrix(e), in},
                   .c = run.f32(node.outputs[0]) + row * in,
                   .c_stride = in});
  });
}

// Experts that no row went to have slopes of zero.
void forward_dw(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t in = attrs.in(), out = attrs.out();
  each_expert(node, run, [&](size_t e, size_t row, size_t rows) {
    float* to = run.f32(node.outputs[0]) + e * out * in;
    if (rows == 0) {
      std::fill_n(to, out * in, 0.0f);
      return;
    }
    kernels::gemm({.m = out,
                   .n = in,
                   .k = rows,
                   .a = {run.f32(node.inputs[0]) + row * out, out, true},
                   .b = {run.f32(node.inputs[2]) + row * in, in},
                   .c = to,
                   .c_stride = in});
  });
}

std::vector<const Parameter*> parameters(const Node& node) { return {node.attrs<Attrs>().weight}; }

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kExpertLinearOp;
extern const OpType kExpertLinearDxOp;
extern const OpType kExpertLinearDwOp;
const OpType kExpertLinearOp{"expert_linear", infer, cost, nullptr, -1, forward, parameters, backward};
const OpType kExpertLinearDxOp{"expert_linear_dx", infer_dx, cost, nullptr, -1, forward_dx};
const OpType kExpertLinearDwOp{"expert_linear_dw", infer_dw, cost, nullptr, -1, forward_dw};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  const Parameter& weight = *node.attrs<Attrs>().weight;
  const ValueId x = node.inputs[0], begins = node.inputs[1], dy = b.of(node.outputs[0]);
  const auto added = [&](const OpType& op, std::vector<ValueId> inputs, const char* suffix) {
    return b.graph().add(op, std::move(inputs), node.attributes, node.name + suffix)[0];
  };
  if (b.wants(x)) b.add(x, added(kExpertLinearDxOp, {dy, begins}, ".dx"));
  if (b.wants(weight)) b.add(weight, added(kExpertLinearDwOp, {dy, begins, x}, ".grad"));
}

}  // namespace

ValueId expert_linear(Graph& g, ValueId x, const MoeRoute& route, const Parameter& weight, size_t first,
                      std::string name, size_t shard_unit) {
  return g.add(kExpertLinearOp, {x, route.begins}, std::make_shared<Attrs>(Attrs{&weight, first, shard_unit}),
               std::move(name))[0];
}

}  // namespace butterfly::graph
