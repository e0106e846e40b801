// The layouts of lfm2 and lfm2moe for random models: two short convolutions, then attention.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kPeriod = 3;  // every third layer attends
constexpr uint32_t kTaps = 3;

bool attends(uint32_t layer) { return layer % kPeriod == kPeriod - 1; }

void add_metadata(const RandomModelOptions& o, const std::string& arch, Metadata& metadata) {
  add_rms_metadata(o, arch, metadata);
  std::vector<int32_t> kv_heads;
  for (uint32_t layer = 0; layer < o.block_count; ++layer)
    kv_heads.push_back(attends(layer) ? static_cast<int32_t>(o.head_count_kv) : 0);
  metadata.set(arch + ".attention.head_count_kv", i32_array(std::move(kv_heads)));
  metadata.set(arch + ".shortconv.l_cache", kTaps);
}

void short_conv(LayoutBuilder& to, const std::string& block) {
  to.norm(block + "attn_norm.weight", to.size.dim);
  to.matrix(block + "shortconv.in_proj.weight", 3 * to.size.dim, to.size.dim, to.size.from_dim);
  to.plan.push_back(
      {block + "shortconv.conv.weight", Shape{to.size.dim, int64_t{kTaps}}, DType::kF32, 0.0f, 0.6f});
  to.matrix(block + "shortconv.out_proj.weight", to.size.dim, to.size.dim,
            to.size.residual * to.size.from_dim);
}

std::vector<TensorPlan> plan(const RandomModelOptions& o, uint32_t dense) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  uint32_t layer = 0;
  for_each_block(o, [&](const std::string& block) {
    if (attends(layer)) {
      to.attention(block);
      to.head_norms(block);
    } else {
      short_conv(to, block);
    }
    if (layer < dense) {
      to.gated_mlp(block);
    } else {
      to.moe(block);
      to.bias(block + "exp_probs_b.bias", o.expert_count, 0.2f);
    }
    ++layer;
  });
  to.output();
  for (TensorPlan& tensor : to.plan)
    if (tensor.name == "output_norm.weight") tensor.name = "token_embd_norm.weight";
  return std::move(to.plan);
}

}  // namespace

void add_lfm2_metadata(const RandomModelOptions& o, Metadata& metadata) { add_metadata(o, "lfm2", metadata); }

void add_lfm2moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_metadata(o, "lfm2moe", metadata);
  add_expert_metadata(o, "lfm2moe", metadata);
  metadata.set("lfm2moe.expert_feed_forward_length", o.feed_forward_length);
  metadata.set("lfm2moe.expert_gating_func", uint32_t{2});
  metadata.set("lfm2moe.leading_dense_block_count", uint32_t{1});
}

std::vector<TensorPlan> plan_lfm2(const RandomModelOptions& o) { return plan(o, o.block_count); }
std::vector<TensorPlan> plan_lfm2moe(const RandomModelOptions& o) { return plan(o, 1); }

}  // namespace butterfly::model
