// The layout of gpt2 for random models. It has no grouped heads: as many KV heads as heads.
#include "base/error.h"
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {

void add_gpt2_metadata(const RandomModelOptions& o, Metadata& metadata) {
  if (o.head_length != 0)
    fail(Errc::kInvalidArgument, "head length {}: gpt2 has heads of embedding length / heads", o.head_length);
  add_shared_metadata(o, "gpt2", metadata);
  metadata.set("gpt2.attention.layer_norm_epsilon", 1e-5f);
}

std::vector<TensorPlan> plan_gpt2(const RandomModelOptions& o) {
  LayoutBuilder to(o);
  const RandomSizes& s = to.size;
  const auto layer_norm = [&](const std::string& name) {
    to.norm(name + ".weight", s.dim);
    to.bias(name + ".bias", s.dim);
  };
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns, float deviation) {
    to.matrix(name + ".weight", rows, columns, deviation);
    to.bias(name + ".bias", rows);
  };
  to.embedding(o.tied ? 2 * s.from_dim : 1.0f);
  to.plan.push_back({"position_embd.weight", Shape{o.context_length, s.dim}, DType::kF32, 0.0f, 0.5f});
  for_each_block(o, [&](const std::string& block) {
    layer_norm(block + "attn_norm");
    linear(block + "attn_qkv", s.q_dim + 2 * s.kv_dim, s.dim, s.from_dim);
    linear(block + "attn_output", s.dim, s.q_dim, s.residual * s.from_q);
    layer_norm(block + "ffn_norm");
    linear(block + "ffn_up", s.hidden, s.dim, s.from_dim);
    linear(block + "ffn_down", s.dim, s.hidden, s.residual * s.from_hidden);
  });
  to.output();
  to.bias("output_norm.bias", s.dim);
  return std::move(to.plan);
}

}  // namespace butterfly::model
