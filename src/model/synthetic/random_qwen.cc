// The layouts of qwen2, qwen3 and qwen3moe for random models.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

void head_norms(LayoutBuilder& to, const std::string& block) {
  to.norm(block + "attn_q_norm.weight", to.size.head_dim);
  to.norm(block + "attn_k_norm.weight", to.size.head_dim);
}

}  // namespace

void add_qwen2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "qwen2", metadata);
}

std::vector<TensorPlan> plan_qwen2(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.bias(block + "attn_q.bias", to.size.q_dim, 0.5f);
    to.bias(block + "attn_k.bias", to.size.kv_dim, 0.5f);
    to.bias(block + "attn_v.bias", to.size.kv_dim, 0.5f);
    to.gated_mlp(block);
  });
  to.output();
  return std::move(to.plan);
}

void add_qwen3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "qwen3", metadata);
}

std::vector<TensorPlan> plan_qwen3(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    head_norms(to, block);
    to.gated_mlp(block);
  });
  to.output();
  return std::move(to.plan);
}

void add_qwen3moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "qwen3moe", metadata);
  add_expert_metadata(o, "qwen3moe", metadata);
  metadata.set("qwen3moe.expert_feed_forward_length", o.feed_forward_length);
}

std::vector<TensorPlan> plan_qwen3moe(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    head_norms(to, block);
    to.moe(block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
