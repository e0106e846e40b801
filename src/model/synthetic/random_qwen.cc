// The layouts of qwen2, qwen3, qwen3moe, qwen3vl and qwen3vlmoe for random models.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

// Rope by three coordinates, as in images; for text all three are the position.
void add_sections(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  const auto pairs = static_cast<int32_t>(RandomSizes(o).head_dim / 2), third = pairs / 3;
  metadata.set(arch + ".rope.dimension_sections", i32_array({pairs - 2 * third, third, third, 0}));
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
    to.head_norms(block);
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
    to.head_norms(block);
    to.moe(block);
  });
  to.output();
  return std::move(to.plan);
}

void add_qwen3vl_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "qwen3vl", metadata);
  add_sections(o, "qwen3vl", metadata);
}

void add_qwen3vlmoe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "qwen3vlmoe", metadata);
  add_expert_metadata(o, "qwen3vlmoe", metadata);
  metadata.set("qwen3vlmoe.expert_feed_forward_length", o.feed_forward_length);
  add_sections(o, "qwen3vlmoe", metadata);
}

}  // namespace butterfly::model
