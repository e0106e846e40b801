// Causal attention within sequences of a training batch, forward and backward.
//
// A window may hold several documents, told by positions that begin again: each is a sequence of its own.
//
// The forward pass is the cache's: keys and values of one sequence and KV head are laid into F32 pages of
// scratch, so a training step sees the bits that a run with an F32 cache sees. Nothing of size
// [length, length] is kept: the backward pass computes scores again, a block of queries at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "graph/ops/documents.h"
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
  bool latent() const { return shape.latent_dim > 0; }
  // Queries, keys and, but for latents, values.
  size_t rows() const { return latent() ? 2 : 3; }
  KvLayout layout() const { return {DType::kF32, shape.head_dim, shape.latent_dim, latent()}; }
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
  if (!attrs.latent())
    expect_equal(node, "value columns", shape.kv_heads * shape.head_dim, g.type(node.inputs[2]).cols());
  if (shape.sinks != nullptr)
    expect_equal(node, "sinks", shape.heads, static_cast<size_t>(shape.sinks->value.count()));
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
  const AttentionShape& shape = node.attrs<Attrs>().shape;
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  return {floats(g.type(node.inputs[0]).rows(), shape.heads * shape.value_dim())};
}

// Both products.
Cost cost(const Graph& g, const Node& node, const CostContext&) {
  const AttentionShape& shape = node.attrs<Attrs>().shape;
  return {.flops = 2 * pairs(g, node) * (shape.head_dim + shape.value_dim()),
          .activation_bytes = value_bytes(g, node)};
}

size_t ids_bytes(const Attrs& attrs) { return (attrs.pages() * sizeof(uint32_t) + 63) / 64 * 64; }

size_t scratch(const Graph&, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  return ids_bytes(attrs) + attrs.pages() * attrs.layout().page_bytes() +
         kernels::attention_scratch_bytes(attrs.layout());
}

// One document and one KV head.
struct Part : Document {
  size_t kv_head;
};

float sink_of(const AttentionShape& shape, size_t head) {
  return shape.sinks == nullptr ? -std::numeric_limits<float>::infinity()
                                : shape.sinks->value.data<float>()[head];
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
                      attrs.latent() ? nullptr : run.f32(node.inputs[2]) + kv_at + i * kv_cols);
  const kernels::KvPages all{pages, layout.page_bytes(), ids};
  kernels::AttentionQuery queries[kernels::kQueriesMax];
  size_t count = 0;
  const size_t total = part.length * attrs.group();
  for (size_t n = 0; n < total; ++n) {
    const size_t i = n / attrs.group(), head = part.kv_head * attrs.group() + n % attrs.group();
    const size_t at = (part.row + i) * cols + head * shape.head_dim;
    const size_t out = ((part.row + i) * shape.heads + head) * shape.value_dim();
    queries[count++] = {run.f32(node.inputs[0]) + at, run.f32(node.outputs[0]) + out, i,
                        sink_of(shape, head)};
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
      each_document(attrs.length, positions, unit / attrs.shape.kv_heads * attrs.length,
                    [&](const Document& document) {
                      fn(Part{document, unit % attrs.shape.kv_heads}, run.scratch(node, worker));
                    });
  });
}

void forward(const Node& node, const RunContext& run) {
  each_part(node, run, node.attrs<Attrs>().rows(),
            [&](const Part& part, std::byte* memory) { attend_part(node, run, part, memory); });
}

// Queries, keys, values if they are apart, gradient of the result.
std::vector<ValueType> infer_grad(const Graph& g, const Node& node) {
  check_shapes(g, node);
  std::vector<ValueType> outputs;
  for (size_t i = 0; i < node.attrs<Attrs>().rows(); ++i) outputs.push_back(g.type(node.inputs[i]));
  return outputs;
}

// Scores again, and four more products.
Cost cost_grad(const Graph& g, const Node& node, const CostContext&) {
  const AttentionShape& shape = node.attrs<Attrs>().shape;
  return {.flops = 2 * pairs(g, node) * (3 * shape.head_dim + 2 * shape.value_dim()),
          .activation_bytes = value_bytes(g, node)};
}

size_t scratch_grad(const Graph&, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  return (2 * std::min(kQueryBlock, attrs.length) * attrs.length + 3 * (attrs.length + 1)) * sizeof(float);
}

// A row of scores becomes probabilities p, and the gradients of those become the scores' own in dp. A sink is
// one more score, of a value of zeros; `spare` has room for both rows with it.
void softmax_gradients(float sink, float* p, float* dp, size_t count, float* spare) {
  if (std::isinf(sink)) {
    kernels::softmax(p, count);
    return kernels::softmax_backward(p, dp, dp, count);
  }
  float *all = spare, *slopes = spare + count + 1;
  std::memcpy(all, p, count * sizeof(float));
  all[count] = sink;
  kernels::softmax(all, count + 1);
  std::memcpy(slopes, dp, count * sizeof(float));
  slopes[count] = 0;
  kernels::softmax_backward(all, slopes, slopes, count + 1);
  std::memcpy(p, all, count * sizeof(float));
  std::memcpy(dp, slopes, count * sizeof(float));
}

// Scores [seen] of one query become probabilities, and dp the gradient of the scores. Columns the query does
// not see become zeros in both. `spare`: 3 * (end - begin + 1) floats.
void score_gradients(const kernels::AttentionParams& params, float sink, size_t begin, size_t end,
                     size_t cols, float* p, float* dp, float* spare) {
  const size_t n = end - begin;
  kernels::scale(p + begin, params.scale, p + begin, n);
  if (params.soft_cap > 0) kernels::soft_cap(p + begin, params.soft_cap, n);
  float* capped = spare + 2 * (n + 1);
  if (params.soft_cap > 0) std::memcpy(capped, p + begin, n * sizeof(float));
  softmax_gradients(sink, p + begin, dp + begin, n, spare);
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
  const size_t dim = shape.head_dim, value = shape.value_dim(), length = part.length;
  const size_t kv_cols = shape.kv_heads * dim, cols = shape.heads * dim, out_cols = shape.heads * value;
  const size_t kv_at = part.row * kv_cols + part.kv_head * dim, last_input = attrs.rows();
  // Values of latents are the beginnings of the keys, and so are their gradients.
  const size_t values = attrs.latent() ? 1 : 2;
  const float* k = run.f32(node.inputs[1]) + kv_at;
  const float* v = run.f32(node.inputs[values]) + kv_at;
  float* dk = run.f32(node.outputs[1]) + kv_at;
  float* dv = run.f32(node.outputs[values]) + kv_at;
  auto* p = reinterpret_cast<float*>(memory);
  float* dp = p + std::min(kQueryBlock, length) * length;
  float* spare = dp + std::min(kQueryBlock, length) * length;
  for (float* rows : {dk, dv})
    for (size_t i = 0; i < length; ++i) std::memset(rows + i * kv_cols, 0, dim * sizeof(float));

  for (size_t head = part.kv_head * attrs.group(); head < (part.kv_head + 1) * attrs.group(); ++head) {
    const size_t at = part.row * cols + head * dim, out_at = part.row * out_cols + head * value;
    for (size_t first = 0; first < length; first += kQueryBlock) {
      const size_t last = std::min(length, first + kQueryBlock), count = last - first;
      const float* q = run.f32(node.inputs[0]) + at + first * cols;
      const float* dout = run.f32(node.inputs[last_input]) + out_at + first * out_cols;
      float* dq = run.f32(node.outputs[0]) + at + first * cols;
      // Scores of `count` queries with the keys up to the last query, and the gradients of the weights.
      kernels::gemm({count, last, dim, {q, cols}, {k, kv_cols, true}, p, last});
      kernels::gemm({count, last, value, {dout, out_cols}, {v, kv_cols, true}, dp, last});
      for (size_t i = 0; i < count; ++i)
        score_gradients(shape.params, sink_of(shape, head), attrs.first_seen(first + i), first + i + 1, last,
                        p + i * last, dp + i * last, spare);
      kernels::gemm({last, value, count, {p, last, true}, {dout, out_cols}, dv, kv_cols, true});
      kernels::gemm({count, dim, last, {dp, last}, {k, kv_cols}, dq, cols});
      kernels::gemm({last, dim, count, {dp, last, true}, {q, cols}, dk, kv_cols, true});
    }
  }
}

void forward_grad(const Node& node, const RunContext& run) {
  each_part(node, run, node.attrs<Attrs>().rows() + 1,
            [&](const Part& part, std::byte* memory) { grad_part(node, run, part, memory); });
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
  const size_t rows = node.attrs<Attrs>().rows();
  std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.begin() + static_cast<ptrdiff_t>(rows));
  inputs.push_back(b.of(node.outputs[0]));
  if (node.inputs.size() > rows) inputs.push_back(node.inputs[rows]);
  const auto out = b.graph().add(kCausalAttentionGradOp, inputs, node.attributes, node.name + ".grad");
  for (size_t i = 0; i < rows; ++i) b.add(node.inputs[i], out[i]);
}

}  // namespace

ValueId causal_attention(Graph& g, ValueId q, ValueId k, ValueId v, const AttentionShape& shape,
                         size_t length, std::string name, ValueId positions) {
  std::vector<ValueId> inputs{q, k};
  if (shape.latent_dim == 0) inputs.push_back(v);
  if (positions.valid()) inputs.push_back(positions);
  return g.add(kCausalAttentionOp, inputs, std::make_shared<Attrs>(Attrs{shape, length}), std::move(name))[0];
}

}  // namespace butterfly::graph
