#include "nn/short_conv.h"

namespace butterfly::nn {

ValueId ShortConv::build(Builder& builder, ValueId rows) const {
  Graph& g = builder.graph();
  if (out.owners && out.owners.columns().empty()) return out.build_shared(builder, {}, g.type(rows).rows());
  const Linear* layers[] = {&b, &c, &x};
  const auto parts = build_linears(builder, rows, layers);
  const ValueId opened = graph::mul(g, parts[0], parts[2], name + ".b");
  const ValueId seen = builder.causal_conv(opened, conv, {}, {layer, 0, 0}, false, name + ".conv");
  return out.build_behind(builder, graph::mul(g, parts[1], seen, name + ".c"), 0);
}

}  // namespace butterfly::nn
