// Keys and values into the cache, then every query over its sequence's pages.
#include <algorithm>
#include <atomic>

#include "graph/ops/op_util.h"
#include "kernels/attention/attention.h"

namespace butterfly::graph {
namespace {

using kernels::AttentionQuery;
using kernels::kQueriesMax;

// Without keys and values of its own a layer reads those that another one has stored.
bool stores(const Node& node) { return node.inputs.size() > 1; }

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const auto& shape = node.attrs<AttentionShape>();
  expect_equal(node, "query columns", shape.heads * shape.head_dim, g.type(node.inputs[0]).cols());
  if (stores(node)) {
    expect_equal(node, "key columns", shape.kv_heads * shape.head_dim, g.type(node.inputs[1]).cols());
    expect_equal(node, "values", shape.latent_dim == 0 ? 1 : 0, node.inputs.size() - 2);
  }
  if (node.inputs.size() > 2)
    expect_equal(node, "value columns", shape.kv_heads * shape.head_dim, g.type(node.inputs[2]).cols());
  if (shape.sinks != nullptr)
    expect_equal(node, "sinks", shape.heads, static_cast<size_t>(shape.sinks->value.count()));
  if (shape.group == 0)
    expect_equal(node, "heads beyond whole groups", 0,
                 shape.kv_heads == 0 ? 1 : shape.heads % shape.kv_heads);
  else
    expect_equal(node, "KV heads", (shape.heads_before + shape.heads + shape.group - 1) / shape.group,
                 shape.kv_heads);
  return {floats(g.type(node.inputs[0]).rows(), shape.heads * shape.value_dim())};
}

// Both products: 2 flops for each of head_dim values, for scores and for the weighted sum.
Cost cost(const Graph& g, const Node& node, const CostContext& context) {
  const auto& shape = node.attrs<AttentionShape>();
  const uint64_t rows = g.type(node.inputs[0]).rows();
  uint64_t seen = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t visible = context.context + row + 1;
    seen += shape.params.window == 0 ? visible : std::min<uint64_t>(visible, shape.params.window);
  }
  const uint64_t before =
      shape.params.window == 0 ? context.context : std::min<uint64_t>(context.context, shape.params.window);
  const uint64_t kv_row = shape.kv_heads * (shape.head_dim + (shape.latent_dim == 0 ? shape.head_dim : 0)) *
                          context.kv_value_bytes;
  return {.flops = 2 * seen * shape.heads * (shape.head_dim + shape.value_dim()),
          .activation_bytes = value_bytes(g, node),
          .kv_bytes = kv_row * (before + (stores(node) ? 2 : 1) * rows)};
}

size_t scratch(const Graph&, const Node& node) {
  // The cache type is known only at run time: the widest need.
  const auto& shape = node.attrs<AttentionShape>();
  const auto bytes_of = [&](DType dtype) {
    return kernels::attention_scratch_bytes({dtype, shape.head_dim, shape.latent_dim, shape.latent_dim > 0});
  };
  return shape.head_dim % 32 == 0 ? std::max(bytes_of(DType::kF32), bytes_of(DType::kQ8_0))
                                  : bytes_of(DType::kF32);
}

// Rows [begin, end) of one sequence whose queries share pages.
struct RowRun {
  size_t begin, end;
};

// Enough rows that their heads of one group fill a call.
std::vector<RowRun> runs_of(const KvStep& kv, size_t group) {
  const size_t rows_max = std::max<size_t>(1, kQueriesMax / group);
  std::vector<RowRun> runs;
  for (size_t row = 0; row < kv.rows.size(); ++row) {
    if (!runs.empty() && kv.rows[runs.back().begin].sequence == kv.rows[row].sequence &&
        row - runs.back().begin < rows_max) {
      runs.back().end = row + 1;
    } else {
      runs.push_back({row, row + 1});
    }
  }
  return runs;
}

// Part `part` of `parts` of the heads that share a KV head.
MemberRange heads_of_part(const AttentionShape& shape, size_t kv_head, size_t part, size_t parts) {
  const MemberRange heads = shape.heads_of(kv_head);
  const size_t count = heads.end - heads.begin;
  return {heads.begin + count * part / parts, heads.begin + count * (part + 1) / parts};
}

// All queries of one run of rows and of `heads`, which share a KV head, kQueriesMax at a time.
void attend_run(const Node& node, const RunContext& run, const RowRun& rows, size_t kv_head,
                const MemberRange& heads, std::byte* scratch_bytes) {
  const auto& shape = node.attrs<AttentionShape>();
  const KvStep& kv = run.kv();
  const size_t cols = shape.heads * shape.head_dim;
  const float* q = run.f32(node.inputs[0]);
  float* out = run.f32(node.outputs[0]);
  const KvLayer& layer = kv.layers[shape.layer];
  const kernels::KvPages pages{layer.head_base(kv_head), layer.page_stride,
                               kv.pages(layer, kv.rows[rows.begin].sequence).data()};
  constexpr float kNoSink = -std::numeric_limits<float>::infinity();
  const float* sinks = shape.sinks == nullptr ? nullptr : shape.sinks->value.data<float>();
  AttentionQuery queries[kQueriesMax];
  size_t count = 0;
  for (size_t row = rows.begin; row < rows.end; ++row)
    for (size_t head = heads.begin; head < heads.end; ++head) {
      const size_t at = row * cols + head * shape.head_dim;
      queries[count++] = {q + at, out + (row * shape.heads + head) * shape.value_dim(), kv.rows[row].position,
                          sinks == nullptr ? kNoSink : sinks[head]};
      if (count == kQueriesMax || (row + 1 == rows.end && head + 1 == heads.end)) {
        kernels::attend(layer.layout, shape.params, pages, queries, count, scratch_bytes);
        count = 0;
      }
    }
}

void store_rows(const Node& node, const RunContext& run, size_t begin, size_t end) {
  const auto& shape = node.attrs<AttentionShape>();
  const KvStep& kv = run.kv();
  const KvLayer& layer = kv.layers[shape.layer];
  const size_t cols = shape.kv_heads * shape.head_dim;
  for (size_t row = begin; row < end; ++row) {
    const auto [sequence, position] = kv.rows[row];
    const uint32_t page = kv.pages(layer, sequence)[position / kernels::kKvPage];
    for (size_t head = 0; head < shape.kv_heads; ++head) {
      const size_t at = row * cols + head * shape.head_dim;
      kernels::kv_store(layer.layout, layer.head_base(head) + page * layer.page_stride,
                        position % kernels::kKvPage, run.f32(node.inputs[1]) + at,
                        shape.latent_dim > 0 ? nullptr : run.f32(node.inputs[2]) + at);
    }
  }
}

void forward(const Node& node, const RunContext& run) {
  const auto& shape = node.attrs<AttentionShape>();
  const KvStep& kv = run.kv();
  BF_CHECK(shape.layer < kv.layers.size() && kv.layers[shape.layer].layout.head_dim == shape.head_dim &&
           kv.layers[shape.layer].layout.values() == shape.value_dim() &&
           kv.layers[shape.layer].kv_heads == shape.kv_heads &&
           kv.layers[shape.layer].kind != PageKind::kState && kv.layers[shape.layer].base != nullptr)
      << "the cache has another shape";
  if (stores(node))
    run.for_rows(kv.rows.size(), shape.kv_heads * shape.head_dim,
                 [&](size_t begin, size_t end) { store_rows(node, run, begin, end); });

  // Later rows see more keys, so units are taken from a shared counter, longest first.
  const std::vector<RowRun> runs = runs_of(kv, shape.group_size());
  // One token of a model with fewer KV heads than threads: they share the heads of a group too. Each reads
  // the pages, but with several queries per key what bounds is arithmetic.
  const size_t pairs = runs.size() * shape.kv_heads, threads = run.pool().size();
  const size_t parts = std::clamp<size_t>(pairs == 0 ? 1 : (threads + pairs - 1) / pairs, 1,
                                          std::max<size_t>(1, shape.group_size()));
  const size_t units = pairs * parts;
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t worker) {
    for (size_t unit = next.fetch_add(1); unit < units; unit = next.fetch_add(1)) {
      const size_t pair = pairs - 1 - unit / parts, kv_head = pair % shape.kv_heads;
      attend_run(node, run, runs[pair / shape.kv_heads], kv_head,
                 heads_of_part(shape, kv_head, unit % parts, parts), run.scratch(node, worker));
    }
  });
}

}  // namespace

extern const OpType kCachedAttentionOp;
const OpType kCachedAttentionOp{"cached_attention", infer, cost, scratch, -1, forward};

ValueId cached_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         std::string name) {
  const auto attrs = std::make_shared<AttentionShape>(shape);
  if (!k.valid()) return g.add(kCachedAttentionOp, {q}, attrs, std::move(name))[0];
  if (!v.valid()) return g.add(kCachedAttentionOp, {q, k}, attrs, std::move(name))[0];
  return g.add(kCachedAttentionOp, {q, k, v}, attrs, std::move(name))[0];
}

}  // namespace butterfly::graph
