// Gemma 4, its text part: layers with a window and layers without one have heads of different sizes; the last
// layers read the keys of earlier ones; in the small models each layer has an input of its own, and in one
// experts add to the dense part.
#include <cmath>

#include "base/error.h"
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {

std::vector<LayerState> gemma4_states(const ModelFile& file, const ModelConfig& config) {
  const ConfigKeys keys(file);
  std::vector<LayerState> states = pattern_states(file, config, 0, 6);
  const size_t near = keys.size_or("attention.key_length_swa", config.head_dim, 65536);
  if (keys.size_or("attention.value_length_swa", near, 65536) != near)
    fail(Errc::kUnsupported, "{}: key {}: expected {}, as keys have", file.path().string(),
         keys.key("attention.value_length_swa"), near);
  for (LayerState& state : states)
    if (state.kind == StateKind::kWindow) state.head_dim = near;
  const size_t shared = keys.optional_size("attention.shared_kv_layers", kLayersMax);
  if (shared == 0) return states;
  if (shared + 2 > config.layers)
    fail(Errc::kCorrupt, "{}: key {}: expected at most {}, found {}", file.path().string(),
         keys.key("attention.shared_kv_layers"), config.layers - 2, shared);
  // The last two layers with keys serve all behind them: one has a window, the other has not.
  const size_t own = config.layers - shared;
  for (size_t layer = own; layer < config.layers; ++layer) {
    const size_t source = states[layer].kind == StateKind::kWindow ? own - 2 : own - 1;
    if (states[source].kind != states[layer].kind || states[source].kv_heads != states[layer].kv_heads)
      fail(Errc::kUnsupported, "{}: block {} reads keys of block {}, which has others", file.path().string(),
           layer, source);
    states[layer].kind = StateKind::kShared;
    states[layer].source = source;
  }
  return states;
}

std::unique_ptr<Network> load_gemma4(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.dim));
  decoder->logit_cap = keys.f32_or("final_logit_softcapping", 0.0f);
  kernels::RopeParams near = config.rope;
  near.base = keys.f32_or("rope.freq_base_swa", static_cast<float>(config.rope.base));
  near.head_dim = keys.size_or("attention.key_length_swa", config.head_dim, 65536);
  near.rotated = keys.size_or("rope.dimension_count_swa", near.head_dim, near.head_dim);
  near.freq_factors.clear();
  decoder->add_rope(config.rope, weights.file());
  decoder->add_window_rope(near, weights.file());
  const AttentionStyle style{.layout = kernels::RopeLayout::kHalfSplit,
                             .norms = AttentionNorms::kHeads,
                             .norm_values = true,
                             .scale = 1};
  const size_t expert_ff = keys.optional_size("expert_feed_forward_length", kSizeMax);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(style);
    block.attention_post_norm = from.norm("post_attention_norm");
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = from.gated_mlp(nn::Activation::kGelu);
    if (expert_ff > 0 && from.has("ffn_gate_inp.weight")) block.beside = from.moe_beside(expert_ff);
    block.mlp_post_norm = from.norm("post_ffw_norm");
    if (config.layer_input_cols > 0) block.layer_input = from.layer_input();
    block.output_scale = from.output_scale();
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
