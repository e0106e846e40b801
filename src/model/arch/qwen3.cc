// Qwen 3: as Llama, with normalised heads and pairs from the two halves of a head; dense, or with experts.
#include "model/arch/llama_like.h"

namespace butterfly::model {
namespace {

LlamaStyle qwen3_style() {
  return {.attention = {.layout = kernels::RopeLayout::kHalfSplit, .norms = AttentionNorms::kHeads}};
}

}  // namespace

std::unique_ptr<Network> load_qwen3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  return load_llama_like(config, weights, range, qwen3_style());
}

std::unique_ptr<Network> load_qwen3moe(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  LlamaStyle style = qwen3_style();
  style.feed_forward = [ff = expert_columns(weights.file(), config)](const BlockLoader& from, size_t) {
    return from.moe(ff);
  };
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
