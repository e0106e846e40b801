#include "nn/latent_attention.h"

namespace butterfly::nn {

ValueId LatentAttention::build(Builder& b, ValueId x, const Rotations& rotations) const {
  Graph& g = b.graph();
  if (out.owners && shape.heads == 0) return out.build_shared(b, {}, g.type(x).rows());
  const auto turned = [&](ValueId heads, ValueId by, const char* suffix) {
    return by.valid() ? graph::rope(g, heads, by, rope_layout, rotated, name + suffix) : heads;
  };
  ValueId queries, latents;
  if (q_a) {
    const Linear* both[] = {&q_a, &kv};
    const auto products = build_linears(b, x, both);
    queries = q.build(b, q_norm.build(b, products[0]));
    latents = products[1];
  } else {
    const Linear* both[] = {&q, &kv};
    const auto products = build_linears(b, x, both);
    queries = products[0];
    latents = products[1];
  }
  auto [asked, by_place] = graph::split_columns(g, queries, plain, rotated, name + ".q_parts");
  asked = graph::head_matmul(g, asked, keys, keys.name);
  by_place = turned(by_place, rotations.queries, ".q_rope");
  queries = graph::join_columns(g, asked, by_place, latent, rotated, name + ".queries");
  auto [shared, place] = graph::split_columns(g, latents, latent, rotated, name + ".kv_parts");
  shared = kv_norm.build(b, shared);
  place = turned(place, rotations.keys, ".k_rope");
  const ValueId keys_here = graph::join_columns(g, shared, place, latent, rotated, name + ".keys");
  const ValueId seen = b.attention(queries, keys_here, {}, shape, name + ".attention");
  return out.build_behind(b, graph::head_matmul(g, seen, values, values.name), columns_before);
}

}  // namespace butterfly::nn
