// Multi-head latent attention (DeepSeek-V2): keys and values of all heads are made of one latent row, and
// that is what the cache has of a position, with a rotated part that all heads share.
//
// Queries are brought to the latent instead of keys out of it (the "absorbed" form), for prompts as for
// single tokens: the other form is cheaper for long prompts, and other bits.
#pragma once
#include <string>

#include "nn/attention.h"

namespace butterfly::nn {

struct LatentAttention {
  // Either `q` alone, or through a low rank: q_a, its norm, q. Per head first what is compared with the
  // latent, then what is rotated.
  Linear q_a, q;
  Norm q_norm;
  Linear kv;                            // the latent, then the rotated part of keys
  Norm kv_norm;                         // of the latent
  graph::ExpertParameter keys, values;  // by head that is here: [latent, plain], [value, latent]
  Linear out;
  size_t plain = 0, rotated = 0, latent = 0, value = 0;  // columns of a head
  // head_dim is latent + rotated, and there is one KV head.
  graph::AttentionShape shape;
  size_t columns_before = 0;  // of the first head's values, which are another member's
  kernels::RopeLayout rope_layout = kernels::RopeLayout::kInterleaved;
  std::string name;

  ValueId build(Builder& b, ValueId x, const Rotations& rotations) const;
};

}  // namespace butterfly::nn
