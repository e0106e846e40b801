// The layouts of olmo2 and minimax-m2 for random models: queries and keys are normalised by whole rows.
#include <algorithm>

#include "model/synthetic/random_layouts.h"

namespace butterfly::model {

void add_olmo2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "olmo2", metadata);
  metadata.set("olmo2.attention.sliding_window", o.sliding_window);
  metadata.set("olmo2.rope.scaling.type", std::string("yarn"));
  metadata.set("olmo2.rope.scaling.factor", 8.0f);
  metadata.set("olmo2.rope.scaling.original_context_length", o.context_length / 8 + 1);
}

// Norms stand behind the parts. What those add is large, as in gemma2's layout.
std::vector<TensorPlan> plan_olmo2(const RandomModelOptions& o) {
  RandomModelOptions untied = o;
  untied.tied = false;
  LayoutBuilder to(untied);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.row_norms(block);
    to.norm(block + "post_attention_norm.weight", to.size.dim);
    to.gated_mlp(block);
    to.norm(block + "post_ffw_norm.weight", to.size.dim);
  });
  to.output();
  std::erase_if(to.plan, [](const TensorPlan& tensor) {
    return tensor.name.ends_with(".attn_norm.weight") || tensor.name.ends_with(".ffn_norm.weight");
  });
  return std::move(to.plan);
}

void add_minimax_m2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "minimax-m2", metadata);
  add_expert_metadata(o, "minimax-m2", metadata);
  metadata.set("minimax-m2.expert_feed_forward_length", o.feed_forward_length);
  metadata.set("minimax-m2.expert_gating_func", uint32_t{2});
  const auto rotated = static_cast<uint32_t>(std::max<int64_t>(2, RandomSizes(o).head_dim / 4 * 2));
  metadata.set("minimax-m2.rope.dimension_count", rotated);
}

std::vector<TensorPlan> plan_minimax_m2(const RandomModelOptions& o) {
  RandomModelOptions untied = o;
  untied.tied = false;
  LayoutBuilder to(untied);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.row_norms(block);
    to.moe(block);
    to.bias(block + "exp_probs_b.bias", o.expert_count, 0.2f);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
