#include "nn/builder.h"

#include <tuple>

#include "base/check.h"

namespace butterfly::nn {

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, const graph::AttentionShape& shape,
                           std::string name, size_t source) {
  if (training_.length == 0) return graph::cached_attention(graph_, q, k, v, shape, std::move(name));
  if (k.valid()) {
    keys_[shape.layer] = {k, v};
  } else {
    const auto found = keys_.find(source);
    BF_CHECK(found != keys_.end()) << name << " reads keys of layer " << source << ", which has none here";
    std::tie(k, v) = found->second;
  }
  return graph::causal_attention(graph_, q, k, v, shape, training_.length, std::move(name),
                                 training_.positions);
}

ValueId Builder::causal_conv(ValueId x, const Parameter& weight, const Parameter& bias,
                             const graph::StatePlace& place, bool silu, std::string name) {
  if (training_.length == 0) return graph::causal_conv(graph_, x, weight, bias, place, silu, std::move(name));
  return graph::sequence_conv(graph_, x, weight, bias, silu, training_.length, std::move(name),
                              training_.positions);
}

ValueId Builder::gated_delta(ValueId qkv, ValueId alpha, ValueId beta, const graph::GatedDeltaShape& shape,
                             std::string name) {
  if (training_.length == 0) return graph::gated_delta(graph_, qkv, alpha, beta, shape, std::move(name));
  return graph::sequence_delta(graph_, qkv, alpha, beta, shape, training_.length, std::move(name),
                               training_.positions);
}

ValueId Builder::selective_state(ValueId rows, ValueId steps, const graph::SelectiveStateShape& shape,
                                 std::string name) {
  if (training_.length == 0) return graph::selective_state(graph_, rows, steps, shape, std::move(name));
  return graph::sequence_state(graph_, rows, steps, shape, training_.length, std::move(name),
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
