#include "nn/builder.h"

namespace butterfly::nn {

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const graph::AttentionShape& shape,
                           std::string name) {
  if (training_.length == 0) return graph::cached_attention(graph_, q, k, v, shape, std::move(name));
  return graph::causal_attention(graph_, q, k, v, shape, training_.length, std::move(name),
                                 training_.positions);
}

ValueId Builder::dropout(ValueId x, const std::string& name) {
  if (training_.dropout == 0) return x;
  return graph::dropout(graph_, x, training_.key, training_.dropout, dropouts_++, name + ".dropout");
}

ValueId Builder::adapter_dropout(ValueId x, const std::string& name) {
  if (training_.adapter_dropout == 0) return x;
  return graph::dropout(graph_, x, training_.key, training_.adapter_dropout, adapter_dropouts_++,
                        name + ".dropout");
}

ValueId Builder::rows_for(ValueId x, kernels::ActKind kind) {
  if (kind == kernels::ActKind::kF32) return x;
  auto [it, fresh] = forms_.try_emplace({x.index, kind});
  if (fresh) it->second = graph::quantize_rows(graph_, x, kind, graph_.values()[x.index].name + ".q8");
  return it->second;
}

}  // namespace butterfly::nn
