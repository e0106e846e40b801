// Causal attention within sequences of a training batch, forward and backward.
//
// A window may hold several documents, told by positions that begin again: each is a sequence of its own.
//
// The forward pass is the cache's: keys and values of one sequence and KV head are laid into F32 pages of
// scratch, so a training step sees the bits that a run with an F32 cache sees. Nothing of size
// [length, length] is kept: the backward pass computes scores again, a block of queries at a time.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/ops/grad_ops.h"
#include "kernels/elementwise/activation_backward.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rows/softmax.h"

namespace butterfly::graph {
namespace {

using kernels::KvLayout;

constexpr size_t kQueryBlock = 64;

struct Attrs {
  AttentionShape shape;
  size_t length;  // rows per sequence
  size_t group() const { return shape.heads / shape.kv_heads; }
  KvLayout layout() const { return {DType::kF32, shape.head_dim}; }
  size_t pages() const { return (length + kernels::kKvPage - 1) / kernels::kKvPage; }
  // First position that a query at `position` sees.
  size_t first_seen(size_t position) const {
    const size_t window = shape.params.window;
    return window == 0 || position < window ? 0 : position + 1 - window;
  }
};

void check_shapes(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const AttentionShape& shape = attrs.shape;
  expect_equal(node, "query columns", shape.heads * shape.head_dim, g.type(node.inputs[0]).cols());
  expect_equal(node, "key columns", shape.kv_heads * shape.head_dim, g.type(node.inputs[1]).cols());
  expect_equal(node, "value columns", shape.kv_heads * shape.head_dim, g.type(node.inputs[2]).cols());
  expect_equal(node, "heads beyond whole groups", 0, shape.kv_heads == 0 ? 1 : shape.heads % shape.kv_heads);
  expect_equal(node, "rows beyond whole sequences", 0,
               attrs.length == 0 ? 1 : g.type(node.inputs[0]).rows() % attrs.length);
}

// Query and key pairs of all sequences and heads.
uint64_t pairs(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  uint64_t seen = 0;
  for (size_t i = 0; i < attrs.length; ++i) seen += i + 1 - attrs.first_seen(i);
  return seen * (g.type(node.inputs[0]).rows() / attrs.length) * attrs.shape.heads;
}

std::vector<ValueType> infer(const Graph& g, const Node& node) {
  check_shapes(g, node);
  return same_as_first(g, node);
}

// Both products.
Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 4 * pairs(g, node) * node.attrs<Attrs>().shape.head_dim,
          .activation_bytes = value_bytes(g, node)};
}

size_t ids_bytes(const Attrs& attrs) { return (attrs.pages() * sizeof(uint32_t) + 63) / 64 * 64; }

size_t scratch(const Graph&, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  return ids_bytes(attrs) + attrs.pages() * attrs.layout().page_bytes() +
         kernels::attention_scratch_bytes(attrs.layout());
}

// One sequence and one KV head of a run, seen from its first row: rows `stride` floats apart.
struct Part {
  size_t row, length, kv_head;
};

// Calls fn(part) for every document of the window that begins at `row`. `positions` may be null: one
// document.
template <typename F>
void each_document(const Attrs& attrs, const int32_t* positions, size_t row, size_t kv_head, F&& fn) {
  size_t begin = 0;
  for (size_t i = 1; i <= attrs.length; ++i) {
    if (i < attrs.length && (positions == nullptr || positions[row + i] != 0)) continue;
    fn(Part{row + begin, i - begin, kv_head});
    begin = i;
  }
}

void attend_part(const Node& node, const RunContext& run, const Part& part, std::byte* memory) {
  const Attrs& attrs = node.attrs<Attrs>();
  const AttentionShape& shape = attrs.shape;
  const KvLayout layout = attrs.layout();
  const size_t page_count = (part.length + kernels::kKvPage - 1) / kernels::kKvPage;
  auto* ids = reinterpret_cast<uint32_t*>(memory);
  std::byte* pages = memory + ids_bytes(attrs);
  std::byte* work = pages + attrs.pages() * layout.page_bytes();
  std::iota(ids, ids + page_count, 0u);
  // Positions behind the last one take no part, but must be numbers.
  std::memset(pages + (page_count - 1) * layout.page_bytes(), 0, layout.page_bytes());
  const size_t kv_cols = shape.kv_heads * shape.head_dim, cols = shape.heads * shape.head_dim;
  const size_t kv_at = part.row * kv_cols + part.kv_head * shape.head_dim;
  for (size_t i = 0; i < part.length; ++i)
    kernels::kv_store(layout, pages + i / kernels::kKvPage * layout.page_bytes(), i % kernels::kKvPage,
                      run.f32(node.inputs[1]) + kv_at + i * kv_cols,
                      run.f32(node.inputs[2]) + kv_at + i * kv_cols);
  const kernels::KvPages all{pages, layout.page_bytes(), ids};
  kernels::AttentionQuery queries[kernels::kQueriesMax];
  size_t count = 0;
  const size_t total = part.length * attrs.group();
  for (size_t n = 0; n < total; ++n) {
    const size_t i = n / attrs.group(), head = part.kv_head * attrs.group() + n % attrs.group();
    const size_t at = (part.row + i) * cols + head * shape.head_dim;
    queries[count++] = {run.f32(node.inputs[0]) + at, run.f32(node.outputs[0]) + at, i};
    if (count < kernels::kQueriesMax && n + 1 < total) continue;
    kernels::attend(layout, shape.params, all, queries, count, work);
    count = 0;
  }
}

// Windows and KV heads are independent: threads take whole ones. `positions` is the input that holds them.
template <typename F>
void each_part(const Node& node, const RunContext& run, size_t positions_input, F&& fn) {
  const Attrs& attrs = node.attrs<Attrs>();
  const int32_t* positions =
      node.inputs.size() > positions_input ? run.i32(node.inputs[positions_input]) : nullptr;
  const size_t units = run.type(node.inputs[0]).rows() / attrs.length * attrs.shape.kv_heads;
  const size_t workers = std::min(run.pool().size(), units);
  run.pool().run([&](size_t worker) {
    for (size_t unit = worker; worker < workers && unit < units; unit += workers)
      each_document(attrs, positions, unit / attrs.shape.kv_heads * attrs.length, unit % attrs.shape.kv_heads,
                    [&](const Part& part) { fn(part, run.scratch(node, worker)); });
  });
}

void forward(const Node& node, const RunContext& run) {
  each_part(node, run, 3, [&](const Part& part, std::byte* memory) { attend_part(node, run, part, memory); });
}

// q, k, v, gradient of the result.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  check_shapes(g, node);
  return {g.type(node.inputs[0]), g.type(node.inputs[1]), g.type(node.inputs[2])};
}

// Scores again, and four more products.
Cost cost_grad(const Graph& g, const Node& node, const CostContext&) {
  return {.flops = 10 * pairs(g, node) * node.attrs<Attrs>().shape.head_dim,
          .activation_bytes = value_bytes(g, node)};
}

size_t scratch_grad(const Graph&, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  return (2 * std::min(kQueryBlock, attrs.length) + 1) * attrs.length * sizeof(float);
}

// Scores [seen] of one query become probabilities, and dp the gradient of the scores. Columns the query does
// not see become zeros in both.
void score_gradients(const kernels::AttentionParams& params, size_t begin, size_t end, size_t cols, float* p,
                     float* dp, float* capped) {
  const size_t n = end - begin;
  kernels::scale(p + begin, params.scale, p + begin, n);
  if (params.soft_cap > 0) {
    kernels::soft_cap(p + begin, params.soft_cap, n);
    std::memcpy(capped, p + begin, n * sizeof(float));
  }
  kernels::softmax(p + begin, n);
  kernels::softmax_backward(p + begin, dp + begin, dp + begin, n);
  if (params.soft_cap > 0) soft_cap_backward(capped, dp + begin, params.soft_cap, dp + begin, n);
  kernels::scale(dp + begin, params.scale, dp + begin, n);
  for (float* row : {p, dp}) {
    std::memset(row, 0, begin * sizeof(float));
    std::memset(row + end, 0, (cols - end) * sizeof(float));
  }
}

void grad_part(const Node& node, const RunContext& run, const Part& part, std::byte* memory) {
  const Attrs& attrs = node.attrs<Attrs>();
  const AttentionShape& shape = attrs.shape;
  const size_t dim = shape.head_dim, length = part.length;
  const size_t kv_cols = shape.kv_heads * dim, cols = shape.heads * dim;
  const size_t kv_at = part.row * kv_cols + part.kv_head * dim;
  const float* k = run.f32(node.inputs[1]) + kv_at;
  const float* v = run.f32(node.inputs[2]) + kv_at;
  float* dk = run.f32(node.outputs[1]) + kv_at;
  float* dv = run.f32(node.outputs[2]) + kv_at;
  auto* p = reinterpret_cast<float*>(memory);
  float* dp = p + std::min(kQueryBlock, length) * length;
  float* capped = dp + std::min(kQueryBlock, length) * length;
  for (float* rows : {dk, dv})
    for (size_t i = 0; i < length; ++i) std::memset(rows + i * kv_cols, 0, dim * sizeof(float));

  for (size_t head = part.kv_head * attrs.group(); head < (part.kv_head + 1) * attrs.group(); ++head) {
    const size_t at = part.row * cols + head * dim;
    for (size_t first = 0; first < length; first += kQueryBlock) {
      const size_t last = std::min(length, first + kQueryBlock), count = last - first;
      const float* q = run.f32(node.inputs[0]) + at + first * cols;
      const float* dout = run.f32(node.inputs[3]) + at + first * cols;
      float* dq = run.f32(node.outputs[0]) + at + first * cols;
      // Scores of `count` queries with the keys up to the last query, and the gradients of the weights.
      kernels::gemm({count, last, dim, {q, cols}, {k, kv_cols, true}, p, last});
      kernels::gemm({count, last, dim, {dout, cols}, {v, kv_cols, true}, dp, last});
      for (size_t i = 0; i < count; ++i)
        score_gradients(shape.params, attrs.first_seen(first + i), first + i + 1, last, p + i * last,
                        dp + i * last, capped);
      kernels::gemm({last, dim, count, {p, last, true}, {dout, cols}, dv, kv_cols, true});
      kernels::gemm({count, dim, last, {dp, last}, {k, kv_cols}, dq, cols});
      kernels::gemm({last, dim, count, {dp, last, true}, {q, cols}, dk, kv_cols, true});
    }
  }
}

void forward_grad(const Node& node, const RunContext& run) {
  each_part(node, run, 4, [&](const Part& part, std::byte* memory) { grad_part(node, run, part, memory); });
}

void backward(GradientBuilder& b, const Node& node);

}  // namespace

extern const OpType kCausalAttentionOp;
extern const OpType kCausalAttentionGradOp;
const OpType kCausalAttentionOp{"causal_attention", infer, cost, scratch, -1, forward, nullptr, backward};
const OpType kCausalAttentionGradOp{
    "causal_attention_grad", infer_grad, cost_grad, scratch_grad, -1, forward_grad};

namespace {

void backward(GradientBuilder& b, const Node& node) {
  std::vector<ValueId> inputs{node.inputs[0], node.inputs[1], node.inputs[2], b.of(node.outputs[0])};
  if (node.inputs.size() > 3) inputs.push_back(node.inputs[3]);
  const auto out = b.graph().add(kCausalAttentionGradOp, inputs, node.attributes, node.name + ".grad");
  for (size_t i = 0; i < 3; ++i) b.add(node.inputs[i], out[i]);
}

}  // namespace

ValueId causal_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         size_t length, std::string name, ValueId positions) {
  std::vector<ValueId> inputs{q, k, v};
  if (positions.valid()) inputs.push_back(positions);
  return g.add(kCausalAttentionOp, inputs, std::make_shared<Attrs>(Attrs{shape, length}), std::move(name))[0];
}

}  // namespace butterfly::graph
