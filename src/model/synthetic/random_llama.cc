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

}  // namespace butterfly::model
