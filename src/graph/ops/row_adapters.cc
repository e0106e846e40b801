// What the adapter of each row adds to a product. Neighbours of one adapter are multiplied together; rows
// without one, and adapters without anything for the layer, cost a comparison.
#include "graph/row_adapters.h"

#include <cstring>

#include "graph/ops/adapter_runs.h"
#include "graph/ops/op_util.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
#include "kernels/rows/gather.h"

namespace butterfly::graph {
namespace {

using kernels::kPanelRows;
using kernels::PackedMatrix;

struct ProductAttrs {
  std::vector<size_t> sites;
  size_t rank;
  kernels::ShardCuts cuts;
};

void expect_row_adapters(const Graph& g, const Node& node, ValueId of_rows, size_t rows) {
  expect_elem(g, node, of_rows, Elem::kI32);
  expect_equal(node, "rows with an adapter", rows, g.type(of_rows).rows());
}

std::vector<ValueType> infer_products(const Graph& g, const Node& node) {
  const auto& attrs = node.attrs<ProductAttrs>();
  const size_t rows = g.type(node.inputs[0]).rows();
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_row_adapters(g, node, node.inputs[1], rows);
  return std::vector<ValueType>(attrs.sites.size(), floats(rows, attrs.rank));
}

// As if every row had an adapter, and all the same.
Cost cost_products(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& x = g.type(node.inputs[0]);
  const auto& attrs = node.attrs<ProductAttrs>();
  const uint64_t weights = attrs.sites.size() * attrs.rank * x.cols();
  return {.flops = 2 * x.rows() * weights,
          .weight_bytes = weights * sizeof(float),
          .activation_bytes = value_bytes(g, node)};
}

const LowRank* addition(const RunContext& run, int32_t adapter, size_t site) {
  return run.kv().adapters[static_cast<size_t>(adapter)]->at(site);
}

// Panels [begin, end) of one matrix for the rows of one run, as outputs.
using PanelsOf =
    FunctionRef<void(size_t site, const LowRank& low, const AdapterRun& rows, size_t begin, size_t end)>;

// Panels of the matrices of all sites and all runs stand in one line that the threads share.
void each_panel(const RunContext& run, ValueId of_rows, std::span<const size_t> sites,
                const Parameter LowRank::*matrix, PanelsOf fn) {
  const std::span<const int32_t> adapters(run.i32(of_rows), run.type(of_rows).rows());
  const auto walk = [&](auto&& each) {
    size_t first = 0;
    each_adapter_run(adapters, [&](const AdapterRun& rows) {
      for (size_t i = 0; i < sites.size(); ++i)
        if (const LowRank* low = addition(run, rows.adapter, sites[i])) {
          each(i, *low, rows, first);
          first += (low->*matrix).packed.panels();
        }
    });
    return first;
  };
  const size_t panels = walk([](size_t, const LowRank&, const AdapterRun&, size_t) {});
  if (panels == 0) return;
  run.pool().parallel_for(panels, 1, [&](size_t begin, size_t end) {
    walk([&](size_t i, const LowRank& low, const AdapterRun& rows, size_t first) {
      const size_t from = std::max(begin, first), to = std::min(end, first + (low.*matrix).packed.panels());
      if (from < to) fn(i, low, rows, from - first, to - first);
    });
  });
}

void forward_products(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<ProductAttrs>();
  const ValueType& x = run.type(node.inputs[0]);
  each_panel(run, node.inputs[1], attrs.sites, &LowRank::a,
             [&](size_t i, const LowRank& low, const AdapterRun& rows, size_t begin, size_t end) {
               const PackedMatrix& a = low.a.packed;
               BF_DCHECK(a.rows() <= attrs.rank && a.cols() == x.cols());
               kernels::matmul_shards(a, attrs.cuts, run.raw(node.inputs[0]) + rows.begin * x.row_bytes(),
                                      x.row_bytes(), rows.count(),
                                      run.f32(node.outputs[i]) + rows.begin * attrs.rank, attrs.rank,
                                      a.rows(), begin * kPanelRows, std::min(end * kPanelRows, a.rows()));
             });
}

struct SiteAttrs {
  size_t site;
  size_t rank;
};

std::vector<ValueType> infer_rows(const Graph& g, const Node& node) {
  const size_t rows = g.type(node.inputs[0]).rows();
  expect_elem(g, node, node.inputs[0], Elem::kI32);
  expect_row_adapters(g, node, node.inputs[1], rows);
  return {floats(rows, node.attrs<SiteAttrs>().rank)};
}

Cost cost_rows(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward_rows(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<SiteAttrs>();
  const std::span<const int32_t> adapters(run.i32(node.inputs[1]), run.type(node.inputs[1]).rows());
  const int32_t* ids = run.i32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  each_adapter_run(adapters, [&](const AdapterRun& rows) {
    const LowRank* low = addition(run, rows.adapter, attrs.site);
    if (low == nullptr) return;
    const Tensor& table = low->a.value;
    const kernels::RowTable from{
        table.dtype(), {table.raw(), table.bytes()}, static_cast<size_t>(table.size(1))};
    for (size_t row = rows.begin; row < rows.end; ++row)
      kernels::gather_rows(from, {ids + row, 1}, out + row * attrs.rank);
  });
}

// Inputs: y, A x, adapters. The second output is room for B's products.
std::vector<ValueType> infer_add(const Graph& g, const Node& node) {
  const ValueType& y = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  expect_equal(node, "rows", y.rows(), g.type(node.inputs[1]).rows());
  expect_equal(node, "columns", node.attrs<SiteAttrs>().rank, g.type(node.inputs[1]).cols());
  expect_row_adapters(g, node, node.inputs[2], y.rows());
  return {y, floats(y.rows(), y.cols())};
}

Cost cost_add(const Graph& g, const Node& node, const CostContext&) {
  const ValueType& y = g.type(node.inputs[0]);
  const uint64_t weights = node.attrs<SiteAttrs>().rank * y.cols();
  return {.flops = 2 * y.rows() * (weights + y.cols()),
          .weight_bytes = weights * sizeof(float),
          .activation_bytes = value_bytes(g, node)};
}

void forward_add(const Node& node, const RunContext& run) {
  const auto& attrs = node.attrs<SiteAttrs>();
  const size_t cols = run.type(node.outputs[0]).cols();
  float* y = run.f32(node.outputs[0]);
  float* room = run.f32(node.outputs[1]);
  const float* x = run.f32(node.inputs[1]);
  if (run.f32(node.inputs[0]) != y)
    std::memcpy(y, run.f32(node.inputs[0]), run.type(node.outputs[0]).bytes());
  each_panel(run, node.inputs[2], {&attrs.site, 1}, &LowRank::b,
             [&](size_t, const LowRank& low, const AdapterRun& rows, size_t begin, size_t end) {
               const PackedMatrix& b = low.b.packed;
               BF_DCHECK(b.cols() <= attrs.rank && b.rows() == cols);
               const size_t from = begin * kPanelRows, to = std::min(end * kPanelRows, cols);
               kernels::matmul(b, reinterpret_cast<const std::byte*>(x + rows.begin * attrs.rank),
                               attrs.rank * sizeof(float), rows.count(), room + rows.begin * cols, cols, from,
                               to);
               for (size_t at = rows.begin * cols + from; at < rows.end * cols; at += cols)
                 kernels::add_scaled(y + at, room + at, low.scale, y + at, to - from);
             });
}

}  // namespace

extern const OpType kAdapterProductsOp;
extern const OpType kAdapterRowsOp;
extern const OpType kAddAdaptersOp;
const OpType kAdapterProductsOp{"adapter_products", infer_products, cost_products, nullptr, -1,
                                forward_products};
const OpType kAdapterRowsOp{"adapter_rows", infer_rows, cost_rows, nullptr, -1, forward_rows};
const OpType kAddAdaptersOp{"add_adapters", infer_add, cost_add, nullptr, 0, forward_add};

std::vector<ValueId> adapter_products(Graph& g, ValueId x, const RowAdapters& adapters,
                                      std::span<const size_t> sites, std::string name, size_t shard_unit) {
  return g.add(
      kAdapterProductsOp, {x, adapters.of_rows},
      std::make_shared<ProductAttrs>(ProductAttrs{
          {sites.begin(), sites.end()}, adapters.rank, kernels::ShardCuts::of(shard_unit, g.type(x).cols())}),
      std::move(name));
}

ValueId adapter_rows(Graph& g, ValueId ids, const RowAdapters& adapters, size_t site, std::string name) {
  return g.add(kAdapterRowsOp, {ids, adapters.of_rows},
               std::make_shared<SiteAttrs>(SiteAttrs{site, adapters.rank}), std::move(name))[0];
}

ValueId add_adapters(Graph& g, ValueId y, ValueId low, const RowAdapters& adapters, size_t site,
                     std::string name) {
  return g.add(kAddAdaptersOp, {y, low, adapters.of_rows},
               std::make_shared<SiteAttrs>(SiteAttrs{site, adapters.rank}), std::move(name))[0];
}

}  // namespace butterfly::graph
