// LFM2: most layers are short convolutions over time, the others attention with normalised heads; dense, or
// with experts chosen by sigmoids and a bias behind the first layers. "attention.head_count_kv" is a list, 0
// for the convolutions.
#include "base/error.h"
#include "kernels/recurrent/causal_conv.h"
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"
#include "model/arch/recurrent_share.h"

namespace butterfly::model {
namespace {

size_t read_taps(const ModelFile& file) {
  const ConfigKeys keys(file);
  const size_t taps = keys.size("shortconv.l_cache", 65536);
  if (taps < 2 || taps > kernels::kConvTapsMax)
    fail(Errc::kUnsupported, "{}: key {}: expected 2 to {}, found {}", file.path().string(),
         keys.key("shortconv.l_cache"), kernels::kConvTapsMax, taps);
  return taps;
}

LayerState state_of(size_t taps, size_t channels) {
  return {.kind = StateKind::kRecurrent,
          .state_floats = nn::short_conv_floats(taps, channels),
          .guess_floats = channels};
}

}  // namespace

std::vector<LayerState> lfm2_states(const ModelFile& file, const ModelConfig& config) {
  std::vector<LayerState> states = window_states(file, config);
  const std::vector<size_t> kv_heads =
      ConfigKeys(file).sizes("attention.head_count_kv", config.layers, config.heads);
  const size_t taps = read_taps(file);
  for (size_t layer = 0; layer < config.layers; ++layer)
    if (kv_heads[layer] == 0) states[layer] = state_of(taps, config.dim);
  return states;
}

LayerState lfm2_share(const ModelFile& file, const ModelConfig& config, const GroupShare& group,
                      size_t layer) {
  const nn::ShardOwners owners =
      mixer_owners(group, file, fmt::format("blk.{}.shortconv.out_proj", layer), config.dim, config.dim);
  return state_of(read_taps(file), owners ? owners.columns().count() : config.dim);
}

std::unique_ptr<Network> load_lfm2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const size_t taps = read_taps(weights.file());
  LlamaStyle style{.attention = {.layout = kernels::RopeLayout::kHalfSplit, .norms = AttentionNorms::kHeads},
                   .output_norm = "token_embd_norm"};
  style.recurrent = [taps](const BlockLoader& from, nn::TransformerBlock& block) {
    block.short_conv = from.short_conv(taps);
  };
  if (config.architecture == "lfm2moe") {
    const size_t dense = keys.optional_size("leading_dense_block_count", kLayersMax),
                 ff = keys.size("expert_feed_forward_length", kSizeMax);
    style.feed_forward = [dense, ff](const BlockLoader& from, size_t layer) -> FeedForward {
      if (layer < dense) return from.gated_mlp(nn::Activation::kSilu);
      return from.moe(ff);
    };
  }
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
