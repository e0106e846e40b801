#include "model/arch/gemma.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "model/arch/config_keys.h"

namespace butterfly::model {
namespace {

// From "attention.sliding_window" (`window` without it; 0: none) and its pattern: every `period`-th layer
// sees everything, unless the file lists the layers.
std::vector<LayerState> local_states(const ModelFile& file, const ModelConfig& config, size_t window,
                                     size_t period) {
  const ConfigKeys keys(file);
  const size_t layers = config.layers;
  if (keys.has("attention.sliding_window"))
    window = keys.optional_size("attention.sliding_window", UINT32_MAX);
  std::vector<bool> is_local;
  const std::string name = keys.key("attention.sliding_window_pattern");
  const MetaValue* pattern = file.metadata().find(name);
  if (pattern != nullptr && std::holds_alternative<MetaArray>(*pattern)) {
    const auto* flags = std::get_if<std::vector<uint8_t>>(&std::get<MetaArray>(*pattern).elements);
    if (flags == nullptr || flags->size() != layers)
      fail(Errc::kCorrupt, "{}: key {}: expected {} booleans, found {}", file.path().string(), name, layers,
           meta_type_text(*pattern));
    is_local.assign(flags->begin(), flags->end());
  } else {
    period = keys.size_or("attention.sliding_window_pattern", period, kLayersMax);
    for (size_t layer = 0; layer < layers; ++layer) is_local.push_back(layer % period + 1 < period);
  }
  std::vector<LayerState> states = full_states(file, config);
  for (size_t layer = 0; layer < layers; ++layer)
    if (window > 0 && is_local[layer]) {
      states[layer].kind = StateKind::kWindow;
      states[layer].window = window;
    }
  return states;
}

}  // namespace

std::vector<LayerState> gemma2_states(const ModelFile& file, const ModelConfig& config) {
  return local_states(file, config, 4096, 2);
}

std::vector<LayerState> gemma3_states(const ModelFile& file, const ModelConfig& config) {
  return local_states(file, config, 0, 6);
}

std::unique_ptr<Decoder> load_gemma(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.dim));
  // The 27B models (46 layers in Gemma 2, 62 in Gemma 3) scale by the columns per head; files do not say so.
  const bool by_columns = config.layers == (config.architecture == "gemma2" ? 46 : 62);
  const auto scaled_by = static_cast<float>(by_columns ? config.dim / config.heads : config.head_dim);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kHalfSplit);
    block.attention.shape.params.scale = 1.0f / std::sqrt(scaled_by);
    block.attention_post_norm = from.norm("post_attention_norm");
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = from.gated_mlp(nn::Activation::kGelu);
    block.mlp_post_norm = from.norm("post_ffw_norm");
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
