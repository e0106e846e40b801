#include "nn/attention.h"

namespace butterfly::nn {

ValueId Attention::build(Builder& b, ValueId x, ValueId turns) const {
  Graph& g = b.graph();
  const Linear* projections[] = {&q, &k, &v};
  const auto qkv = build_linears(b, x, projections);
  const ValueId queries = graph::rope(g, qkv[0], turns, rope_layout, shape.head_dim, name + ".q_rope");
  const ValueId keys = graph::rope(g, qkv[1], turns, rope_layout, shape.head_dim, name + ".k_rope");
  return out.build(b, graph::cached_attention(g, queries, keys, qkv[2], shape, name + ".attention"));
}

}  // namespace butterfly::nn
