// Decoders of Llama's kind: blocks of attention and a feed-forward part under norms. Most architectures are
// this with other names, norms, ropes or experts, which a style says.
#pragma once
#include <functional>

#include "model/arch/decoder.h"

namespace butterfly::model {

// The feed-forward part of a block.
using FeedForward = std::variant<nn::Mlp, nn::Moe>;

struct LlamaStyle {
  AttentionStyle attention = {};
  // Names of norms in front of each part and behind it; null: there is none.
  const char* attention_norm = "attn_norm";
  const char* attention_post_norm = nullptr;
  const char* mlp_norm = "ffn_norm";
  const char* mlp_post_norm = nullptr;
  const char* output_norm = "output_norm";
  // Puts what layers with a recurrent state have in the place of attention.
  std::function<void(const BlockLoader& from, nn::TransformerBlock& block)> recurrent = {};
  // Puts what other layers have there; empty: `attention`.
  std::function<void(const BlockLoader& from, nn::TransformerBlock& block)> attention_of = {};
  // Of what each part adds to its input.
  float residual_scale = 1;
  // Of block `layer`; empty: a gated part with silu.
  std::function<FeedForward(const BlockLoader& from, size_t layer)> feed_forward = {};
};

// With config.rope in every block.
std::unique_ptr<Decoder> load_llama_like(const ModelConfig& config, WeightLoader& weights, LayerRange range,
                                         const LlamaStyle& style);

// Columns inside an expert: "expert_feed_forward_length", or the feed-forward length divided by the experts
// of a row, as older files mean it.
size_t expert_columns(const ModelFile& file, const ModelConfig& config);

}  // namespace butterfly::model
