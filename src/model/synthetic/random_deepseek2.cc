// The layout of deepseek2 for random models: latents of 256 numbers and 32 rotated ones; one dense layer,
// experts in two groups behind it.
#include <algorithm>

#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

constexpr int64_t kLatent = 256, kRotated = 32;

// Of queries and keys that are not rotated.
int64_t plain_dim(const RandomSizes& size) { return std::max<int64_t>(32, size.head_dim); }

}  // namespace

void add_deepseek2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  const std::string arch = "deepseek2";
  add_rms_metadata(o, arch, metadata);
  const RandomSizes size(o);
  const auto set = [&](const char* name, int64_t value) {
    metadata.set(arch + "." + name, static_cast<uint32_t>(value));
  };
  set("attention.head_count_kv", 1);
  set("attention.q_lora_rank", size.dim);
  set("attention.kv_lora_rank", kLatent);
  set("attention.key_length", kLatent + kRotated);
  set("attention.value_length", kLatent);
  set("attention.key_length_mla", plain_dim(size) + kRotated);
  set("attention.value_length_mla", size.head_dim);
  set("rope.dimension_count", kRotated);
  metadata.set(arch + ".rope.scaling.type", std::string("yarn"));
  metadata.set(arch + ".rope.scaling.factor", 4.0f);
  set("rope.scaling.original_context_length", 128);
  metadata.set(arch + ".rope.scaling.yarn_log_multiplier", 0.0707f);
  set("leading_dense_block_count", 1);
  add_expert_metadata(o, arch, metadata);
  set("expert_feed_forward_length", size.hidden);
  set("expert_shared_count", 1);
  set("expert_gating_func", 2);
  metadata.set(arch + ".expert_weights_norm", true);
  metadata.set(arch + ".expert_weights_scale", 1.5f);
  if (o.expert_count % 2 == 0 && o.expert_used_count <= o.expert_count / 2) {
    set("expert_group_count", 2);
    set("expert_group_used_count", 1);
  }
}

std::vector<TensorPlan> plan_deepseek2(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  const int64_t dim = to.size.dim, plain = plain_dim(to.size), value = to.size.head_dim, heads = o.head_count;
  const float from_latent = 1.0f / 16;
  // Where a head's columns are no whole blocks of the type, files have another.
  const bool fits = plain % dtype_info(o.matrix_type).block_values == 0;
  to.embedding_as_head();
  bool dense = true;
  for_each_block(o, [&](const std::string& block) {
    to.norm(block + "attn_norm.weight", dim);
    to.matrix(block + "attn_q_a.weight", dim, dim, to.size.from_dim);
    to.norm(block + "attn_q_a_norm.weight", dim);
    to.matrix(block + "attn_q_b.weight", heads * (plain + kRotated), dim, to.size.from_dim);
    to.matrix(block + "attn_kv_a_mqa.weight", kLatent + kRotated, dim, to.size.from_dim);
    to.norm(block + "attn_kv_a_norm.weight", kLatent);
    to.plan.push_back({block + "attn_k_b.weight", Shape{heads, kLatent, plain},
                       fits ? o.matrix_type : DType::kF32, 0.0f, from_latent});
    to.plan.push_back(
        {block + "attn_v_b.weight", Shape{heads, value, kLatent}, o.matrix_type, 0.0f, from_latent});
    to.matrix(block + "attn_output.weight", dim, heads * value, to.size.residual * to.size.from_q);
    if (dense) {
      to.gated_mlp(block);
    } else {
      to.moe(block);
      to.bias(block + "exp_probs_b.bias", o.expert_count, 0.2f);
      to.shared_expert(block);
    }
    dense = false;
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace butterfly::model
