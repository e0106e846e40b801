// The layout of gpt-oss for random models: YaRN, windows, sinks and biases.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {

void add_gpt_oss_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "gpt-oss", metadata);
  add_expert_metadata(o, "gpt-oss", metadata);
  metadata.set("gpt-oss.expert_feed_forward_length", o.feed_forward_length);
  metadata.set("gpt-oss.attention.sliding_window", o.sliding_window);
  metadata.set("gpt-oss.rope.scaling.type", std::string("yarn"));
  metadata.set("gpt-oss.rope.scaling.factor", 8.0f);
  metadata.set("gpt-oss.rope.scaling.original_context_length", o.context_length / 8);
}

std::vector<TensorPlan> plan_gpt_oss(const RandomModelOptions& o) {
  RandomModelOptions untied = o;
  untied.tied = false;
  LayoutBuilder to(untied);
  to.embedding_as_head();
  const auto expert_bias = [&](const std::string& name, int64_t columns) {
    to.plan.push_back({name, Shape{o.expert_count, columns}, DType::kF32, 0.0f, 0.5f});
  };
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.bias(block + "attn_q.bias", to.size.q_dim, 0.5f);
    to.bias(block + "attn_k.bias", to.size.kv_dim, 0.5f);
    to.bias(block + "attn_v.bias", to.size.kv_dim, 0.5f);
    to.bias(block + "attn_output.bias", to.size.dim);
    to.bias(block + "attn_sinks.weight", o.head_count, 1.0f);
    to.moe(block, "post_attention_norm");
    to.bias(block + "ffn_gate_inp.bias", o.expert_count, 0.5f);
    expert_bias(block + "ffn_gate_exps.bias", to.size.hidden);
    expert_bias(block + "ffn_up_exps.bias", to.size.hidden);
    expert_bias(block + "ffn_down_exps.bias", to.size.dim);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
