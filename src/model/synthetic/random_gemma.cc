// The layouts of gemma2 and gemma3 for random models. Caps and windows are small, so that short texts meet
// them.
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

// What blocks add is made larger than the embedding: with a shared matrix the best token would else always be
// the last one.
// At 3 the rounding of activations to 8 bits alone moves distributions by a KL of 2e-3, in llama.cpp as here
// (tests/llamacpp/rounding_test.cc), and a comparison of the two could show no smaller mistake.
constexpr float kPostNorm = 2.0f;

// Embeddings are scaled by sqrt(dim), and the head is always the embedding. `more(block)` adds to a block.
template <typename F>
std::vector<TensorPlan> plan_gemma(const RandomModelOptions& o, F&& more) {
  RandomModelOptions tied = o;
  tied.tied = true;
  LayoutBuilder to(tied);
  to.embedding(2 * to.size.from_dim);
  for_each_block(o, [&](const std::string& block) {
    to.attention(block);
    to.norm(block + "post_attention_norm.weight", to.size.dim, kPostNorm);
    to.gated_mlp(block);
    to.norm(block + "post_ffw_norm.weight", to.size.dim, kPostNorm);
    more(to, block);
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace

void add_gemma2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "gemma2", metadata);
  metadata.set("gemma2.attention.sliding_window", o.sliding_window);
  metadata.set("gemma2.attn_logit_softcapping", 5.0f);
  metadata.set("gemma2.final_logit_softcapping", 6.0f);
}

std::vector<TensorPlan> plan_gemma2(const RandomModelOptions& o) {
  return plan_gemma(o, [](LayoutBuilder&, const std::string&) {});
}

void add_gemma3_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_rms_metadata(o, "gemma3", metadata);
  metadata.set("gemma3.attention.sliding_window", o.sliding_window);
  metadata.set("gemma3.rope.freq_base", 1000000.0f);
  metadata.set("gemma3.rope.scaling.type", std::string("linear"));
  metadata.set("gemma3.rope.scaling.factor", 8.0f);
}

std::vector<TensorPlan> plan_gemma3(const RandomModelOptions& o) {
  return plan_gemma(o, [](LayoutBuilder& to, const std::string& block) { to.head_norms(block); });
}

}  // namespace butterfly::model
