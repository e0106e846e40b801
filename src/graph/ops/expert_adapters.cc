// What the adapter of each row adds to the product of the expert that the row goes to. Experts are
// independent: threads take whole ones, as in expert_linear.cc.
#include <atomic>
#include <cstring>

#include "graph/ops/adapter_runs.h"
#include "graph/ops/op_util.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  size_t site;
  size_t rank;
  size_t shard_unit = 0;  // of A's product
  size_t first = 0;       // row of B
};

void expect_places(const Graph& g, const Node& node, ValueId begins, ValueId adapters) {
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_elem(g, node, begins, Elem::kI32);
  expect_elem(g, node, adapters, Elem::kI32);
  expect_equal(node, "places with an adapter", g.type(node.inputs[0]).rows(), g.type(adapters).rows());
}

// Inputs: rows at their places, the experts' first places, adapters of the places.
std::vector<ValueType> infer_products(const Graph& g, const Node& node) {
  expect_places(g, node, node.inputs[1], node.inputs[2]);
  return {floats(g.type(node.inputs[0]).rows(), node.attrs<Attrs>().rank)};
}

// Inputs: y, A x, the experts' first places, adapters of the places. The second output is room for B's
// products.
std::vector<ValueType> infer_add(const Graph& g, const Node& node) {
  const ValueType& y = g.type(node.inputs[0]);
  expect_places(g, node, node.inputs[2], node.inputs[3]);
  expect_equal(node, "rows", y.rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns", node.attrs<Attrs>().rank, g.type(node.inputs[1]).cols());
  return {y, floats(y.rows(), y.cols())};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  const uint64_t flops = 2 * x.rows() * x.cols() * node.attrs<Attrs>().rank;
  return {.flops = flops,
          .weight_bytes = flops / 2 * sizeof(float),  // of each row's own expert
          .activation_bytes = value_bytes(g, node)};
}

// fn(expert, rows of it that name one adapter, what that adds), shared out over the pool.
template <typename F>
void each_expert_run(const Node& node, const RunContext& run, ValueId begins_of, ValueId of_places, F&& fn) {
  const int32_t* begins = run.i32(begins_of);
  const int32_t* adapters = run.i32(of_places);
  const size_t experts = run.type(begins_of).rows() - 1, site = node.attrs<Attrs>().site;
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t) {
    for (size_t e = next.fetch_add(1); e < experts; e = next.fetch_add(1)) {
      const auto first = static_cast<size_t>(begins[e]), count = static_cast<size_t>(begins[e + 1]) - first;
      each_adapter_run({adapters + first, count}, [&](AdapterRun rows) {
        const LowRank* low = run.kv().adapters[static_cast<size_t>(rows.adapter)]->at(site);
        if (low != nullptr) fn(e, AdapterRun{rows.begin + first, rows.end + first, rows.adapter}, *low);
      });
    }
  });
}

void forward_products(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t in = run.type(node.inputs[0]).cols();
  each_expert_run(node, run, node.inputs[1], node.inputs[2],
                  [&](size_t e, const AdapterRun& rows, const LowRank& low) {
                    const auto rank = static_cast<size_t>(low.a.value.size(1));
                    kernels::gemm({.m = rows.count(),
                                   .n = rank,
                                   .k = in,
                                   .a = {run.f32(node.inputs[0]) + rows.begin * in, in},
                                   .b = {low.a.value.data<float>() + e * rank * in, in, true},
                                   .c = run.f32(node.outputs[0]) + rows.begin * attrs.rank,
                                   .c_stride = attrs.rank,
                                   .shard_unit = attrs.shard_unit});
                  });
}

void forward_add(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<Attrs>();
  const size_t cols = run.type(node.outputs[0]).cols();
  float* y = run.f32(node.outputs[0]);
  float* room = run.f32(node.outputs[1]);
  if (run.f32(node.inputs[0]) != y)
    std::memcpy(y, run.f32(node.inputs[0]), run.type(node.outputs[0]).bytes());
  each_expert_run(
      node, run, node.inputs[2], node.inputs[3], [&](size_t e, const AdapterRun& rows, const LowRank& low) {
        const auto out = static_cast<size_t>(low.b.value.size(1)),
                   rank = static_cast<size_t>(low.b.value.size(2));
        const size_t at = rows.begin * cols;
        kernels::gemm({.m = rows.count(),
                       .n = cols,
                       .k = rank,
                       .a = {run.f32(node.inputs[1]) + rows.begin * attrs.rank, attrs.rank},
                       .b = {low.b.value.data<float>() + (e * out + attrs.first) * rank, rank, true},
                       .c = room + at,
                       .c_stride = cols});
        kernels::add_scaled(y + at, room + at, low.scale, y + at, rows.count() * cols);
      });
}

}  // namespace

extern const OpType kExpertAdapterProductsOp;
extern const OpType kAddExpertAdaptersOp;
const OpType kExpertAdapterProductsOp{"expert_adapter_products", infer_products, cost, nullptr, -1,
                                      forward_products};
const OpType kAddExpertAdaptersOp{"add_expert_adapters", infer_add, cost, nullptr, 0, forward_add};

ValueId expert_adapter_products(Graph& g, ValueId x, const MoeRoute& route, const RowAdapters& adapters,
                                size_t site, std::string name, size_t shard_unit) {
  return g.add(kExpertAdapterProductsOp, {x, route.begins, adapters.of_rows},
               std::make_shared<Attrs>(Attrs{site, adapters.rank, shard_unit}), std::move(name))[0];
}

ValueId add_expert_adapters(Graph& g, ValueId y, ValueId low, const MoeRoute& route,
                            const RowAdapters& adapters, size_t site, size_t first, std::string name) {
  return g.add(kAddExpertAdaptersOp, {y, low, route.begins, adapters.of_rows},
               std::make_shared<Attrs>(Attrs{site, adapters.rank, 0, first}), std::move(name))[0];
}

}  // namespace butterfly::graph
