// The layout of glm4moe for random models: one dense layer, experts behind it.
#include <algorithm>

#include "model/synthetic/random_layouts.h"

namespace butterfly::model {

void add_glm4moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "glm4moe", metadata);
  add_expert_metadata(o, "glm4moe", metadata);
  metadata.set("glm4moe.expert_feed_forward_length", o.feed_forward_length);
  metadata.set("glm4moe.expert_shared_count", uint32_t{1});
  metadata.set("glm4moe.leading_dense_block_count", uint32_t{1});
  metadata.set("glm4moe.expert_gating_func", uint32_t{2});
  metadata.set("glm4moe.expert_weights_norm", true);
  metadata.set("glm4moe.expert_weights_scale", 1.5f);
  const auto rotated = static_cast<uint32_t>(std::max<int64_t>(2, RandomSizes(o).head_dim / 4 * 2));
  metadata.set("glm4moe.rope.dimension_count", rotated);
}

std::vector<TensorPlan> plan_glm4moe(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  bool dense = true;
  const auto add = [&](const std::string& block) {
    to.attention(block);
    to.bias(block + "attn_q.bias", to.size.q_dim, 0.5f);
    to.bias(block + "attn_k.bias", to.size.kv_dim, 0.5f);
    to.bias(block + "attn_v.bias", to.size.kv_dim, 0.5f);
    to.head_norms(block);
    if (dense) {
      to.gated_mlp(block, "post_attention_norm");
    } else {
      to.moe(block, "post_attention_norm");
      to.bias(block + "exp_probs_b.bias", o.expert_count, 0.2f);
      to.shared_expert(block);
    }
    dense = false;
  };
  for_each_block(o, add);
  for_each_predictor(o, [&](const std::string& block) {
    add(block);
    to.predictor(block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
