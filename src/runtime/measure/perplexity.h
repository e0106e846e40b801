// How well a model predicts a text, computed as llama.cpp's perplexity tool does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {

struct PerplexityOptions {
  size_t context = 512;  // tokens per chunk
  // 0: chunks lie side by side and the second half of each is scored, so every scored token has at least half
  // a chunk before it. Otherwise chunks begin every `stride` tokens and the last `stride` of each are scored.
  size_t stride = 0;
  size_t chunks_max = SIZE_MAX;
};

struct Perplexity {
  double value = 0;        // exp of the mean negative log probability
  double uncertainty = 0;  // standard error of `value`
  double mean_nll = 0;     // natural logarithms
  size_t tokens = 0;       // scored
  size_t chunks = 0;
};

// Called after each chunk with the result so far and the number of chunks; returns false to stop there.
using PerplexityProgress = std::function<bool(const Perplexity& so_far, size_t chunks)>;

// What is scored: rows of sequence 0 in, their logits out.
struct ScoredModel {
  size_t vocab = 0;
  size_t positions = 0;  // of the cache
  size_t rows_max = 0;   // per run
  std::function<std::span<const float>(std::span<const BatchRow> rows)> run;
  std::function<void()> forget;  // empties the cache
};

// `bos` (for models that want one) replaces the first token of every chunk. Throws Error kInvalidArgument
// when the text is shorter than a chunk or the cache than the context.
Perplexity measure_perplexity(const ScoredModel& model, std::span<const int32_t> tokens,
                              std::optional<int32_t> bos, const PerplexityOptions& options,
                              const PerplexityProgress& progress = {});
// Uses sequence 0 of the layers.
Perplexity measure_perplexity(CachedLayers& layers, std::span<const int32_t> tokens,
                              std::optional<int32_t> bos, const PerplexityOptions& options,
                              const PerplexityProgress& progress = {});

// -log of the softmax of `logits` at `token`, in double with our own functions: the same on every machine.
double negative_log_probability(std::span<const float> logits, int32_t token);

}  // namespace butterfly::runtime
