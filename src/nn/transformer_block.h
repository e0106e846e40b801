// A transformer block: attention and feed-forward, each added to its input, with norms before or behind them.
#pragma once
#include <optional>
#include <variant>

#include "nn/attention.h"
#include "nn/delta_net.h"
#include "nn/latent_attention.h"
#include "nn/moe.h"
#include "nn/selective_mixer.h"
#include "nn/short_conv.h"

namespace butterfly::nn {

// Experts that add to what a dense part says, each under norms of its own (Gemma 4).
struct MoeBeside {
  Norm router_norm, norm;           // what the router and the experts read
  Norm dense_post_norm, post_norm;  // of what either says, before they are added
  Moe moe;
};

// A layer's own input besides the residual stream, which opens a gate (Gemma 4): adds norm(out(gelu(gate(x))
// * input)).
struct LayerInput {
  Linear gate, out;
  Norm norm;
  std::string name;
};

struct TransformerBlock {
  // A block without a mixer, or without a feed-forward part, has no name there.
  Norm attention_norm;  // may be empty, as all of them
  Attention attention;
  std::optional<DeltaNet> delta_net;              // in the place of attention
  std::optional<ShortConv> short_conv;            // the same
  std::optional<SelectiveMixer> selective_mixer;  // the same
  std::optional<LatentAttention> latent;          // the same
  Norm attention_post_norm;                       // of what attention adds
  Norm mlp_norm;
  std::variant<Mlp, Moe> mlp;
  std::optional<MoeBeside> beside;
  Norm mlp_post_norm;        // of what the feed-forward part adds
  float residual_scale = 1;  // of what either adds
  std::optional<LayerInput> layer_input;
  float output_scale = 1;  // of the whole block

  bool recurrent() const { return delta_net || short_conv || selective_mixer; }
  // The output of attention, or of what is in its place.
  const Linear& mixer_out() const;
  const std::string& mixer_name() const;
  const std::string& mlp_name() const;
  // `input`: the layer's own, where it has one.
  ValueId build(Builder& b, ValueId x, const Rotations& rotations, ValueId input = {}) const;

 private:
  ValueId build_mixer(Builder& b, ValueId x, const Rotations& rotations) const;
  ValueId build_mlp(Builder& b, ValueId x) const;
};

}  // namespace butterfly::nn
