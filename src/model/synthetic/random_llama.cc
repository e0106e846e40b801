// The layouts of the llama architecture for random models: plain, as Llama 3 (frequency factors), with
// experts.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {}  // namespace

void add_llama_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "llama", metadata);
}

std::vector<TensorPlan> plan_llama(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.gated_mlp(block);
  });
  to.output();
  return std::move(to.plan);
}

void add_llama3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "llama", metadata);
  metadata.set("llama.rope.freq_base", 500000.0f);
}

std::vector<TensorPlan> plan_llama3(const RandomModelOptions& o) {
  std::vector<TensorPlan> plan = plan_llama(o);
  plan.push_back({"rope_freqs.weight", Shape{RandomSizes(o).head_dim / 2}, DType::kF32, 3.0f, 0.5f});
  return plan;
}

void add_mixtral_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "llama", metadata);
  add_expert_metadata(o, "llama", metadata);
}

std::vector<TensorPlan> plan_mixtral(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  to.embedding_as_head();
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.moe(block);
  });
  to.output();
  return std::move(to.plan);
}

// The original context is short, so that short texts go beyond it.
void add_mistral3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "mistral3", metadata);
  metadata.set("mistral3.rope.scaling.type", std::string("yarn"));
  metadata.set("mistral3.rope.scaling.factor", 16.0f);
  metadata.set("mistral3.rope.scaling.original_context_length", o.context_length / 16 + 1);
  metadata.set("mistral3.rope.scaling.yarn_log_multiplier", 1.0f);
  metadata.set("mistral3.attention.temperature_scale", 0.1f);
}

void add_smollm3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "smollm3", metadata);
}

}  // namespace butterfly::model
