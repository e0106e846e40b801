// Qwen 3: as Llama, with normalised heads and pairs from the two halves of a head; dense, or with experts.
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {
namespace {

// `feed_forward(from)`: the block's feed-forward part.
template <typename F>
std::unique_ptr<Network> load(const ModelConfig& config, WeightLoader& weights, LayerRange range,
                              F&& feed_forward) {
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->ropes.emplace_back(config.rope);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kHalfSplit);
    block.attention.q_norm = from.head_norm("attn_q_norm");
    block.attention.k_norm = from.head_norm("attn_k_norm");
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = feed_forward(from);
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace

std::unique_ptr<Network> load_qwen3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  return load(config, weights, range,
              [](const BlockLoader& from) { return from.gated_mlp(nn::Activation::kSilu); });
}

std::unique_ptr<Network> load_qwen3moe(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  // Older files give the size of all experts of a row together.
  const size_t ff =
      keys.size_or("expert_feed_forward_length", config.ff / keys.size("expert_used_count", 65536), kSizeMax);
  return load(config, weights, range, [&](const BlockLoader& from) { return from.moe(ff); });
}

}  // namespace butterfly::model
