#include "graph/training_digest.h"

#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"
#include "graph/executor.h"
#include "graph/gradients.h"
#include "graph/ops.h"

namespace butterfly::graph {
namespace {

// Two sequences, each longer than a block of queries of causal_attention and than a page.
constexpr size_t kLength = 70, kRows = 2 * kLength;
constexpr int64_t kVocabulary = 300, kHidden = 160;

// Drawn weights that stay where they are: graphs keep references.
class Weights {
 public:
  const Parameter& draw(Shape shape, float mean = 0) {
    Tensor value = Tensor::zeros(DType::kF32, shape);
    for (int64_t i = 0; i < value.count(); ++i)
      value.data<float>()[i] = mean + 0.2f * random_normal(1, all_.size(), static_cast<uint64_t>(i));
    all_.push_back({.name = "w" + std::to_string(all_.size()), .value = value, .trainable = true});
    return all_.back();
  }

 private:
  std::deque<Parameter> all_;
};

// A block of a transformer, in one of the two common styles.
struct Style {
  AttentionShape attention;
  kernels::RopeLayout rope;
  bool llama;  // rms_norm and swiglu; else layer_norm and gelu
};

ValueId normalised(Graph& g, Weights& weights, ValueId x, const Style& style) {
  const auto dim = static_cast<int64_t>(g.type(x).cols());
  const Parameter& weight = weights.draw({dim}, 1);
  if (style.llama) return rms_norm(g, x, weight, 1e-5f, "norm");
  return layer_norm(g, x, weight, weights.draw({dim}), 1e-5f, "norm");
}

ValueId feed_forward(Graph& g, Weights& weights, ValueId x, const Style& style) {
  const auto dim = static_cast<int64_t>(g.type(x).cols());
  const ValueId up = linear(g, x, weights.draw({kHidden, dim}), weights.draw({kHidden}), "up");
  const ValueId hidden = style.llama
                             ? swiglu(g, linear(g, x, weights.draw({kHidden, dim}), {}, "gate"), up, "swiglu")
                             : gelu(g, up, "gelu");
  return linear(g, hidden, weights.draw({dim, kHidden}), {}, "down");
}

ValueId attention(Graph& g, Weights& weights, ValueId x, ValueId rotations, const Style& style) {
  const AttentionShape& shape = style.attention;
  const auto dim = static_cast<int64_t>(g.type(x).cols());
  const auto kv = static_cast<int64_t>(shape.kv_heads * shape.head_dim);
  const auto rotated = [&](int64_t outputs, const char* name) {
    return rope(g, linear(g, x, weights.draw({outputs, dim}), {}, name), rotations, style.rope,
                shape.head_dim, name);
  };
  const ValueId q = rotated(dim, "q"), k = rotated(kv, "k");
  const ValueId v = linear(g, x, weights.draw({kv, dim}), {}, "v");
  return linear(g, causal_attention(g, q, k, v, shape, kLength, "attention"), weights.draw({dim, dim}), {},
                "projection");
}

// One step's loss and gradients, all of them.
void digest_step(kernels::Digest& digest, const Style& style) {
  Graph g;
  Weights weights;
  const auto dim = static_cast<int64_t>(style.attention.heads * style.attention.head_dim);
  const ValueId tokens = g.input("tokens", {Elem::kI32, {kRows}});
  const ValueId positions = g.input("positions", {Elem::kI32, {kRows}});
  const ValueId targets = g.input("targets", {Elem::kI32, {kRows}});
  const ValueId factor = g.input("factor", {Elem::kF32, {1}});
  const kernels::Rope angles(kernels::RopeParams{.head_dim = style.attention.head_dim});
  const Parameter& table = weights.draw({kVocabulary, dim});
  ValueId x = embedding(g, tokens, table, "embedding");
  x = add(g, x,
          attention(g, weights, normalised(g, weights, x, style),
                    rope_rotations(g, positions, angles, "rotations"), style),
          "sum1");
  x = add(g, x, feed_forward(g, weights, normalised(g, weights, x, style), style), "sum2");
  const ValueId loss =
      linear_cross_entropy(g, normalised(g, weights, x, style), table, targets, factor, true, "loss").loss;
  g.mark_output(loss);
  std::vector<ValueId> results = {loss};
  for (const ParameterGradient& gradient : gradients(g, loss).parameters) {
    g.mark_output(gradient.value);
    results.push_back(gradient.value);
  }

  ThreadPool pool(1);
  Arena arena;
  Executor executor(std::move(g), arena, pool);
  const auto fill = [&](ValueId value, auto number) {
    auto* to = reinterpret_cast<int32_t*>(executor.input(value));
    for (size_t i = 0; i < kRows; ++i) to[i] = static_cast<int32_t>(number(i));
  };
  fill(tokens, [](size_t i) { return i * 97 % kVocabulary; });
  fill(positions, [](size_t i) { return i % kLength; });
  fill(targets, [](size_t i) { return i % 9 == 4 ? kNoTarget : static_cast<int32_t>(i * 31 % kVocabulary); });
  *reinterpret_cast<float*>(executor.input(factor)) = 1.0f / kRows;
  executor.run(nullptr);
  for (const ValueId result : results) {
    const ValueType& type = executor.graph().type(result);
    digest.add(std::span(executor.output(result), type.rows() * type.cols()));
  }
}

constexpr kernels::DigestRow kDigests[] = {
    {"training step: grouped heads, rms_norm, swiglu",
     [](kernels::Digest& digest) {
       digest_step(digest, {{0, 4, 2, 24, {.scale = 0.2f}}, kernels::RopeLayout::kHalfSplit, /*llama=*/true});
     }},
    {"training step: window, soft cap, layer_norm, gelu",
     [](kernels::Digest& digest) {
       digest_step(digest, {{0, 2, 2, 32, {.scale = 0.2f, .soft_cap = 1.5f, .window = 40}},
                            kernels::RopeLayout::kInterleaved,
                            /*llama=*/false});
     }},
};

}  // namespace

std::span<const kernels::DigestRow> training_digest_table() { return kDigests; }

}  // namespace butterfly::graph
