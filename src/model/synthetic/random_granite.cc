// The layouts of granite and granitemoe for random models: small scales that show.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

// Embeddings are small, and scaled.
template <typename F>
std::vector<TensorPlan> plan_scaled(const RandomModelOptions& o, F&& feed_forward) {
  LayoutBuilder to(o);
  to.embedding(o.tied ? 2 * to.size.from_dim : 0.1f);
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    feed_forward(to, block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace

void add_granite_scales(const std::string& arch, Metadata& metadata) {
  metadata.set(arch + ".embedding_scale", 12.0f);
  metadata.set(arch + ".attention.scale", 0.1f);
  metadata.set(arch + ".residual_scale", 0.5f);
  metadata.set(arch + ".logit_scale", 0.75f);
}

void add_granite_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "granite", metadata);
  add_granite_scales("granite", metadata);
}

void add_granitemoe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "granitemoe", metadata);
  add_granite_scales("granitemoe", metadata);
  add_expert_metadata(o, "granitemoe", metadata);
  metadata.set("granitemoe.expert_shared_feed_forward_length", o.feed_forward_length);
}

std::vector<TensorPlan> plan_granite(const RandomModelOptions& o) {
  return plan_scaled(o, [](LayoutBuilder& to, const std::string& block) { to.gated_mlp(block); });
}

std::vector<TensorPlan> plan_granitemoe(const RandomModelOptions& o) {
  return plan_scaled(o, [](LayoutBuilder& to, const std::string& block) {
    to.moe(block);
    to.shared_expert(block);
  });
}

}  // namespace butterfly::model
