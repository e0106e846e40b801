#include "nn/attention.h"

#include <tuple>

namespace butterfly::nn {

ValueId Attention::build(Builder& b, ValueId x, ValueId rotations) const {
  Graph& g = b.graph();
  const Linear* projections[] = {&q, &k, &v};
  const auto qkv = build_linears(b, x, projections);
  const auto placed = [&](ValueId heads, const Norm& norm, const char* suffix) {
    if (norm) heads = norm.build(b, heads);
    return rotations.valid() ? graph::rope(g, heads, rotations, rope_layout, shape.head_dim, name + suffix)
                             : heads;
  };
  ValueId queries = qkv[0], gates;
  if (gated) std::tie(queries, gates) = graph::halves(g, queries, shape.head_dim, name + ".q_halves");
  queries = placed(queries, q_norm, ".q_rope");
  const ValueId keys = placed(qkv[1], k_norm, ".k_rope");
  ValueId seen = b.attention(queries, keys, qkv[2], shape, name + ".attention");
  if (gated) seen = graph::gate(g, seen, gates, name + ".gate");
  return out.build(b, seen);
}

}  // namespace butterfly::nn
