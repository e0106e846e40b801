#include "graph/testing/small_gpt.h"

#include <cmath>

#include "base/rng.h"

namespace butterfly::graph::testing {

Parameter SmallGpt::parameter(const char* name, Shape shape, float mean) {
  Parameter made;
  made.name = name;
  made.value = Tensor::zeros(DType::kF32, shape);
  made.trainable = true;
  ++stream_;
  if (random_)
    for (int64_t i = 0; i < made.value.count(); ++i)
      made.value.data<float>()[i] = mean + 0.2f * random_normal(1, stream_, static_cast<uint64_t>(i));
  return made;
}

SmallGpt::SmallGpt(const GptSizes& sizes, bool random) : sizes_(sizes), random_(random) {
  const auto dim = static_cast<int64_t>(sizes.dim);
  tokens_ = parameter("tokens", {static_cast<int64_t>(sizes.vocabulary), dim});
  positions_ = parameter("positions", {static_cast<int64_t>(sizes.length), dim});
  for (size_t i = 0; i < sizes.layers; ++i)
    blocks_.push_back(
        {parameter("norm1", {dim}, 1), parameter("norm1.bias", {dim}), parameter("q", {dim, dim}),
         parameter("k", {dim, dim}), parameter("v", {dim, dim}), parameter("projection", {dim, dim}),
         parameter("norm2", {dim}, 1), parameter("norm2.bias", {dim}), parameter("up", {4 * dim, dim}),
         parameter("up.bias", {4 * dim}), parameter("down", {dim, 4 * dim}), parameter("down.bias", {dim})});
  norm_ = parameter("norm", {dim}, 1);
  norm_bias_ = parameter("norm.bias", {dim});
}

SmallGpt::Built SmallGpt::build(bool bound) const {
  Built built;
  Graph& g = built.graph;
  const auto rows = static_cast<int64_t>(sizes_.batch * sizes_.length);
  built.tokens = g.input("tokens", {Elem::kI32, {rows}});
  built.positions = g.input("positions", {Elem::kI32, {rows}});
  built.targets = g.input("targets", {Elem::kI32, {rows}});
  built.factor = g.input("factor", {Elem::kF32, {1}});
  const size_t head_dim = sizes_.dim / sizes_.heads;
  const AttentionShape shape{
      0, sizes_.heads, sizes_.heads, head_dim, {.scale = 1.0f / std::sqrt(static_cast<float>(head_dim))}};
  ValueId x = add(g, embedding(g, built.tokens, tokens_, "embedding"),
                  embedding(g, built.positions, positions_, "position"), "x");
  for (const Block& b : blocks_) {
    const ValueId h = layer_norm(g, x, b.norm1, b.norm1_bias, 1e-5f, "norm1");
    const ValueId attention = causal_attention(g, linear(g, h, b.q, {}, "q"), linear(g, h, b.k, {}, "k"),
                                               linear(g, h, b.v, {}, "v"), shape, sizes_.length, "attention");
    x = add(g, x, linear(g, attention, b.projection, {}, "projection"), "sum1");
    const ValueId n = layer_norm(g, x, b.norm2, b.norm2_bias, 1e-5f, "norm2");
    const ValueId up = gelu(g, linear(g, n, b.up, b.up_bias, "up"), "gelu");
    x = add(g, x, linear(g, up, b.down, b.down_bias, "down"), "sum2");
  }
  x = layer_norm(g, x, norm_, norm_bias_, 1e-5f, "norm");
  const Loss loss = linear_cross_entropy(g, x, tokens_, built.targets, built.factor, true, "loss");
  built.loss = loss.loss;
  g.mark_output(built.loss);
  built.forward_nodes = g.nodes().size();
  for (const ParameterGradient& gradient : gradients(g, built.loss).parameters) {
    built.gradients.push_back(gradient.value);
    if (bound) {
      g.bind(gradient.value);
    } else {
      g.mark_output(gradient.value);
    }
  }
  return built;
}

}  // namespace butterfly::graph::testing
