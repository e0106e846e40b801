// For tests and benchmarks: a GPT-2 of any size and its tokens, as bench/train/gpt2_torch.py has them.
#pragma once
#include <vector>

#include "train/networks/transformer.h"

namespace butterfly::train::testing {

struct Gpt2 {
  uint32_t layers = 2, dim = 64, heads = 4, vocab = 256, context = 64;
  size_t batch = 4, length = 32;

  model::ModelFile untrained() const {
    model::RandomModelOptions sizes;
    sizes.architecture = "gpt2";
    sizes.vocabulary_size = vocab;
    sizes.context_length = context;
    sizes.embedding_length = dim;
    sizes.block_count = layers;
    sizes.feed_forward_length = 4 * dim;
    sizes.head_count = sizes.head_count_kv = heads;
    sizes.tied = true;
    return untrained_model(sizes, {});
  }
};

struct Gpt2Tokens {
  std::vector<int32_t> tokens, targets;
  Gpt2Tokens(const Gpt2& gpt, size_t step) {
    for (size_t row = 0; row < gpt.batch; ++row)
      for (size_t t = 0; t < gpt.length; ++t) {
        tokens.push_back(token(gpt, step, row * (gpt.length + 1) + t));
        targets.push_back(token(gpt, step, row * (gpt.length + 1) + t + 1));
      }
  }
  static int32_t token(const Gpt2& gpt, size_t step, size_t i) {
    return static_cast<int32_t>((i * 7919 + step * 104729 + i * i % 1009 * 31) % gpt.vocab);
  }
  MicroBatch batch() const { return {.tokens = tokens, .pixels = {}, .targets = targets}; }
};

}  // namespace butterfly::train::testing
