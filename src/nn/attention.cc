#include "nn/attention.h"

#include <tuple>
#include <vector>

namespace butterfly::nn {

ValueId Attention::build(Builder& b, ValueId x, const Rotations& rotations) const {
  Graph& g = b.graph();
  if (out.owners && shape.heads == 0) return out.build_shared(b, {}, g.type(x).rows());
  std::vector<const Linear*> projections = {&q};
  if (k) projections.push_back(&k);
  if (v) projections.push_back(&v);
  const auto qkv = build_linears(b, x, projections);
  const auto placed = [&](ValueId heads, const Norm& norm, graph::MemberRange mine, ValueId by,
                          const char* suffix) {
    if (norm) heads = norm.build(b, heads);
    if (mine.count() > 0 && mine.count() != g.type(heads).cols())
      heads = graph::columns(g, heads, mine.begin, mine.count(), name + suffix + ".columns");
    return by.valid() ? graph::rope(g, heads, by, rope_layout, shape.head_dim, name + suffix) : heads;
  };
  ValueId queries = qkv[0], gates;
  if (gated) std::tie(queries, gates) = graph::halves(g, queries, shape.head_dim, name + ".q_halves");
  queries = placed(queries, q_norm, q_columns, rotations.queries, ".q_rope");
  ValueId keys, values;
  if (k) {
    keys = placed(qkv[1], k_norm, k_columns, rotations.keys, ".k_rope");
    values = v_norm ? v_norm.build(b, qkv.back()) : qkv.back();
  }
  graph::AttentionShape with_sinks = shape;
  if (sinks) with_sinks.sinks = &sinks;
  ValueId seen = b.attention(queries, keys, values, with_sinks, name + ".attention", source);
  if (gated) seen = graph::gate(g, seen, gates, name + ".gate");
  return out.build_behind(b, seen, columns_before);
}

}  // namespace butterfly::nn
