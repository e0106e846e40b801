// Granite 3 and 4: as Llama, with scales of the embedding, the scores, what parts add and the logits; dense,
// or with experts, and then perhaps one that sees every row. In the hybrids most layers are Mamba-2: those
// without KV heads.
#include "base/error.h"
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"
#include "model/arch/mamba2.h"

namespace butterfly::model {

std::vector<LayerState> granite_hybrid_states(const ModelFile& file, const ModelConfig& config) {
  const Mamba2Config mamba = read_mamba2(file);
  std::vector<LayerState> states = full_states(file, config);
  for (size_t layer = 0; layer < config.layers; ++layer)
    if (config.layer_kv_heads[layer] == 0) states[layer] = mamba2_state(mamba.shape, mamba.taps);
  return states;
}

std::unique_ptr<Network> load_granite(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const auto scale = [&](const char* name) {  // 0 or no key: none
    const float value = keys.f32_or(name, 0);
    return value == 0 ? 1.0f : value;
  };
  LlamaStyle style{.attention = {.scale = keys.f32_or("attention.scale", 0)},
                   .residual_scale = scale("residual_scale")};
  const size_t shared = keys.optional_size("expert_shared_feed_forward_length", kSizeMax);
  if (keys.optional_size("expert_count", 65536) > 0)
    style.feed_forward = [&](const BlockLoader& from, size_t) {
      nn::Moe moe = from.moe(config.ff);
      if (shared > 0) from.add_shared_expert(moe, shared);
      return moe;
    };
  if (config.architecture == "granitehybrid")
    style.recurrent = [mamba = read_mamba2(weights.file())](const BlockLoader& from,
                                                            nn::TransformerBlock& block) {
      block.selective_mixer = from.selective_mixer(mamba.shape, mamba.taps);
    };
  auto decoder = load_llama_like(config, weights, range, style);
  // Files use this key as a switch.
  if (!weights.file().metadata().boolean_or(keys.key("rope.scaling.finetuned"), true))
    decoder->rope_of_block.assign(range.end - range.begin, Decoder::kNoRope);
  decoder->embedding_scale = scale("embedding_scale");
  decoder->logit_scale = 1.0f / scale("logit_scale");
  return decoder;
}

}  // namespace butterfly::model
