#include "nn/attention.h"

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
  const ValueId queries = placed(qkv[0], q_norm, ".q_rope");
  const ValueId keys = placed(qkv[1], k_norm, ".k_rope");
  return out.build(b, b.attention(queries, keys, qkv[2], shape, name + ".attention"));
}

}  // namespace butterfly::nn
