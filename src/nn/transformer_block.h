// A transformer block: attention and feed-forward, each added to its input, with norms before or behind them.
#pragma once
#include <optional>
#include <variant>

#include "nn/attention.h"
#include "nn/delta_net.h"
#include "nn/moe.h"
#include "nn/short_conv.h"

namespace butterfly::nn {

struct TransformerBlock {
  Norm attention_norm;  // may be empty, as all of them
  Attention attention;
  std::optional<DeltaNet> delta_net;    // in the place of attention
  std::optional<ShortConv> short_conv;  // the same
  Norm attention_post_norm;             // of what attention adds
  Norm mlp_norm;
  std::variant<Mlp, Moe> mlp;
  Norm mlp_post_norm;        // of what the feed-forward part adds
  float residual_scale = 1;  // of what either adds

  bool recurrent() const { return delta_net || short_conv; }
  // The output of attention, or of what is in its place.
  const Linear& mixer_out() const {
    return delta_net ? delta_net->out : short_conv ? short_conv->out : attention.out;
  }
  ValueId build(Builder& b, ValueId x, const Rotations& rotations) const;
};

}  // namespace butterfly::nn
