#include "nn/builder.h"

namespace butterfly::nn {

ValueId Builder::rows_for(ValueId x, kernels::ActKind kind) {
  if (kind == kernels::ActKind::kF32) return x;
  auto [it, fresh] = forms_.try_emplace({x.index, kind});
  if (fresh) it->second = graph::quantize_rows(graph_, x, kind, graph_.values()[x.index].name + ".q8");
  return it->second;
}

}  // namespace butterfly::nn
