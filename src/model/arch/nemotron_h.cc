// Nemotron-H and Nemotron 3: every layer is one part under one norm, a Mamba-2 mixer, attention without
// positions, or a feed-forward part with squared relus, dense or with experts chosen by sigmoids.
// "attention.head_count_kv" and "feed_forward_length" are lists that say which.
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"
#include "model/arch/mamba2.h"

namespace butterfly::model {

std::vector<LayerState> nemotron_h_states(const ModelFile& file, const ModelConfig& config) {
  const Mamba2Config mamba = read_mamba2(file);
  std::vector<LayerState> states = full_states(file, config);
  for (size_t layer = 0; layer < config.layers; ++layer) {
    if (config.layer_ff[layer] > 0)
      states[layer] = {.kind = StateKind::kNone};
    else if (config.layer_kv_heads[layer] == 0)
      states[layer] = mamba2_state(mamba.shape, mamba.taps);
  }
  return states;
}

std::unique_ptr<Network> load_nemotron_h(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const Mamba2Config mamba = read_mamba2(weights.file());
  const bool experts = keys.optional_size("expert_count", 65536) > 0;
  const bool normalise = weights.file().metadata().boolean_or(keys.key("expert_weights_norm"), false);
  const size_t ff = experts ? expert_columns(weights.file(), config) : 0,
               shared = keys.optional_size("expert_shared_feed_forward_length", kSizeMax);
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  const AttentionStyle style{.scale = keys.f32_or("attention.scale", 0)};
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    const StateKind kind = config.states[layer].kind;
    (kind == StateKind::kNone ? block.mlp_norm : block.attention_norm) = from.norm("attn_norm");
    if (kind == StateKind::kRecurrent) {
      block.selective_mixer = from.selective_mixer(mamba.shape, mamba.taps);
    } else if (kind != StateKind::kNone) {
      block.attention = from.attention(style);
    } else if (!experts) {
      block.mlp = from.plain_mlp(nn::Activation::kSquaredRelu);
    } else {
      nn::Moe moe = from.moe(ff, nn::Activation::kSquaredRelu);
      moe.route.by = graph::RouteBy::kSigmoid;
      moe.route.normalise = normalise;
      if (shared > 0) from.add_shared_expert(moe, shared);
      block.mlp = std::move(moe);
    }
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
