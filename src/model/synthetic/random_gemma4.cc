// The layouts of gemma4 for random models: windows in all but every n-th layer, keys of earlier layers
// behind, and inputs of layers; or without either, with experts beside the dense part.
#include <algorithm>

#include "base/error.h"
#include "model/synthetic/random_layouts.h"

namespace butterfly::model {
namespace {

constexpr float kPostNorm = 1.5f;  // see random_gemma.cc

bool has_window(const RandomModelOptions& o, uint32_t layer) { return (layer + 1) % o.window_period != 0; }
// Layers with keys: whole periods, so that the last two serve windows and whole texts. Unless asked for more,
// as few layers as can be read them.
uint32_t own_layers(const RandomModelOptions& o) {
  if (o.shared_kv_layers == 0)
    return o.block_count <= o.window_period ? o.block_count
                                            : (o.block_count - 1) / o.window_period * o.window_period;
  if (o.shared_kv_layers >= o.block_count || (o.block_count - o.shared_kv_layers) % o.window_period != 0)
    fail(Errc::kInvalidArgument, "{} of {} layers read earlier keys, expected to leave a multiple of {}",
         o.shared_kv_layers, o.block_count, o.window_period);
  return o.block_count - o.shared_kv_layers;
}
// Of a layer's input: whole blocks of every type.
int64_t input_cols(const RandomModelOptions& o) {
  if (o.layer_input_length != 0) return o.layer_input_length;
  return std::max<int64_t>(
      {32, dtype_info(o.matrix_type).block_values, dtype_info(o.vocabulary_type).block_values});
}
uint32_t kv_heads(const RandomModelOptions& o, uint32_t layer, bool experts) {
  return experts && !has_window(o, layer) ? std::max(1u, o.head_count_kv / 2) : o.head_count_kv;
}

void add_metadata(const RandomModelOptions& o, bool experts, Metadata& metadata) {
  if (o.window_period < 2)
    fail(Errc::kInvalidArgument, "window period {}: expected at least 2", o.window_period);
  add_rms_metadata(o, "gemma4", metadata);
  const auto near = static_cast<uint32_t>(RandomSizes(o).head_dim);
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    metadata.set(std::string("gemma4.") + name, 2 * near);
    metadata.set(std::string("gemma4.") + name + "_swa", near);
  }
  std::vector<uint8_t> windows;
  std::vector<int32_t> heads, widths;
  for (uint32_t layer = 0; layer < o.block_count; ++layer) {
    windows.push_back(has_window(o, layer) ? 1 : 0);
    heads.push_back(static_cast<int32_t>(kv_heads(o, layer, experts)));
    const bool wide = !experts && layer >= own_layers(o);
    widths.push_back(static_cast<int32_t>(wide ? 2 * o.feed_forward_length : o.feed_forward_length));
  }
  metadata.set("gemma4.attention.sliding_window", o.sliding_window);
  metadata.set("gemma4.attention.sliding_window_pattern", bool_array(std::move(windows)));
  metadata.set("gemma4.attention.head_count_kv", i32_array(std::move(heads)));
  metadata.set("gemma4.feed_forward_length", i32_array(std::move(widths)));
  metadata.set("gemma4.rope.freq_base", 1000000.0f);
  metadata.set("gemma4.rope.freq_base_swa", 10000.0f);
  metadata.set("gemma4.final_logit_softcapping", 6.0f);
  metadata.set("gemma4.embedding_length_per_layer_input", static_cast<uint32_t>(experts ? 0 : input_cols(o)));
  if (!experts) metadata.set("gemma4.attention.shared_kv_layers", o.block_count - own_layers(o));
  if (!experts) return;
  add_expert_metadata(o, "gemma4", metadata);
  metadata.set("gemma4.expert_feed_forward_length", o.feed_forward_length);
}

void attention(LayoutBuilder& to, const std::string& block, uint32_t layer, bool experts) {
  const RandomModelOptions& o = to.options;
  const int64_t dim = to.size.dim, head = has_window(o, layer) ? to.size.head_dim : 2 * to.size.head_dim;
  const int64_t queries = head * o.head_count, keys = head * kv_heads(o, layer, experts);
  const bool own = experts || layer < own_layers(o);
  to.norm(block + "attn_norm.weight", dim);
  to.matrix(block + "attn_q.weight", queries, dim, to.size.from_dim);
  to.norm(block + "attn_q_norm.weight", head, 0.5f);
  if (own) {
    to.matrix(block + "attn_k.weight", keys, dim, to.size.from_dim);
    to.norm(block + "attn_k_norm.weight", head, 0.5f);
    if (!experts || has_window(o, layer)) to.matrix(block + "attn_v.weight", keys, dim, to.size.from_dim);
  }
  to.matrix(block + "attn_output.weight", dim, queries, to.size.residual * to.size.from_q);
  to.norm(block + "post_attention_norm.weight", dim, kPostNorm);
}

void mlp(LayoutBuilder& to, const std::string& block, int64_t ff) {
  to.norm(block + "ffn_norm.weight", to.size.dim);
  to.matrix(block + "ffn_gate.weight", ff, to.size.dim, to.size.from_dim);
  to.matrix(block + "ffn_up.weight", ff, to.size.dim, to.size.from_dim);
  to.matrix(block + "ffn_down.weight", to.size.dim, ff, to.size.residual * to.size.from_hidden);
  to.norm(block + "post_ffw_norm.weight", to.size.dim, kPostNorm);
}

void experts_beside(LayoutBuilder& to, const std::string& block) {
  const int64_t dim = to.size.dim;
  to.moe(block, "pre_ffw_norm_2");
  to.norm(block + "ffn_gate_inp.scale", dim, 16.0f);
  to.norm(block + "post_ffw_norm_1.weight", dim);
  to.norm(block + "post_ffw_norm_2.weight", dim);
  to.plan.push_back({block + "ffn_down_exps.scale", Shape{to.options.expert_count}, DType::kF32, 1.0f, 0.2f});
}

std::vector<TensorPlan> plan(const RandomModelOptions& o, bool experts) {
  RandomModelOptions tied = o;
  tied.tied = true;
  LayoutBuilder to(tied);
  to.embedding(to.size.from_dim);  // small, so that what layers add decides
  // With experts divisors that show; otherwise as config.json of a Hugging Face folder can say it.
  to.plan.push_back({"rope_freqs.weight", Shape{to.size.head_dim}, DType::kF32, experts ? 2.0f : 1.0f,
                     experts ? 0.3f : 0.0f});
  const int64_t cols = input_cols(o), dim = to.size.dim;
  if (!experts) {
    to.plan.push_back({"per_layer_token_embd.weight", Shape{to.size.vocabulary, cols * o.block_count},
                       o.vocabulary_type, 0.0f, 0.2f});
    to.matrix("per_layer_model_proj.weight", cols * o.block_count, dim, to.size.from_dim);
    to.norm("per_layer_proj_norm.weight", cols);
  }
  uint32_t layer = 0;
  for_each_block(o, [&](const std::string& block) {
    attention(to, block, layer, experts);
    mlp(to, block, !experts && layer >= own_layers(o) ? 2 * to.size.hidden : to.size.hidden);
    if (experts) {
      experts_beside(to, block);
    } else {
      to.matrix(block + "inp_gate.weight", cols, dim, to.size.from_dim);
      to.matrix(block + "proj.weight", dim, cols, to.size.residual * 0.2f);
      to.norm(block + "post_norm.weight", dim, 0.5f);
    }
    to.plan.push_back({block + "layer_output_scale.weight", Shape{1}, DType::kF32, 0.9f, 0.05f});
    ++layer;
  });
  to.output();
  return std::move(to.plan);
}

}  // namespace

void add_gemma4_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_metadata(o, false, metadata);
}
void add_gemma4moe_metadata(const RandomModelOptions& o, Metadata& metadata) {
  add_metadata(o, true, metadata);
}
std::vector<TensorPlan> plan_gemma4(const RandomModelOptions& o) { return plan(o, false); }
std::vector<TensorPlan> plan_gemma4moe(const RandomModelOptions& o) { return plan(o, true); }

}  // namespace butterfly::model
