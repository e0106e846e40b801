// The layout of phi3 for random models: factors for short contexts, up to half the context length, and for
// long ones.
#include <algorithm>

#include "model/synthetic/random_layouts.h"

namespace butterfly::model {

void add_phi3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "phi3", metadata);
  metadata.set("phi3.rope.scaling.original_context_length", std::max(o.context_length / 2, 1u));
  metadata.set("phi3.rope.scaling.attn_factor", 1.1f);
}

std::vector<TensorPlan> plan_phi3(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  const RandomSizes& s = to.size;
  to.embedding(o.tied ? 2 * s.from_dim : 1.0f);
  for_each_block(o, [&](const std::string& block) {
    to.norm(block + "attn_norm.weight", s.dim);
    to.matrix(block + "attn_qkv.weight", s.q_dim + 2 * s.kv_dim, s.dim, s.from_dim);
    to.matrix(block + "attn_output.weight", s.dim, s.q_dim, s.residual * s.from_q);
    to.norm(block + "ffn_norm.weight", s.dim);
    to.matrix(block + "ffn_up.weight", 2 * s.hidden, s.dim, s.from_dim);
    to.matrix(block + "ffn_down.weight", s.dim, s.hidden, s.residual * s.from_hidden);
  });
  to.output();
  to.plan.push_back({"rope_factors_short.weight", Shape{s.head_dim / 2}, DType::kF32, 1.1f, 0.03f});
  to.plan.push_back({"rope_factors_long.weight", Shape{s.head_dim / 2}, DType::kF32, 3.0f, 0.5f});
  return std::move(to.plan);
}

}  // namespace butterfly::model
