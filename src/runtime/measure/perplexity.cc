#include "runtime/measure/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "kernels/math/math.h"

namespace butterfly::runtime {
namespace {

// Rows per run. Bounds the logits in memory: 256 rows of a vocabulary of 128,000 are 131 MB.
constexpr size_t kRows = 256;

struct Sums {
  double nll = 0;
  double nll_squared = 0;
  size_t count = 0;

  void add(double value) {
    nll += value;
    nll_squared += value * value;
    ++count;
  }
  Perplexity result(size_t chunks) const {
    Perplexity perplexity;
    perplexity.chunks = chunks;
    perplexity.tokens = count;
    if (count == 0) return perplexity;
    const auto n = static_cast<double>(count);
    perplexity.mean_nll = nll / n;
    perplexity.value = kernels::exp_f64(perplexity.mean_nll);
    const double variance = nll_squared / n - perplexity.mean_nll * perplexity.mean_nll;
    if (count > 1 && variance > 0) perplexity.uncertainty = std::sqrt(variance / (n - 1)) * perplexity.value;
    return perplexity;
  }
};

// Runs one chunk from an empty cache and scores the tokens behind positions [first, size - 1).
void score_chunk(const ScoredModel& model, std::span<const int32_t> tokens, std::optional<int32_t> bos,
                 size_t first, Sums& sums) {
  const size_t vocab = model.vocab;
  const size_t rows_max = std::min(model.rows_max, kRows);
  model.forget();
  std::vector<BatchRow> rows;
  // The last token is only predicted, never read.
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += rows_max) {
    const size_t end = std::min(tokens.size() - 1, begin + rows_max);
    rows.clear();
    for (size_t i = begin; i < end; ++i)
      rows.push_back({i == 0 && bos ? *bos : tokens[i], 0, static_cast<uint32_t>(i), i >= first});
    const std::span<const float> logits = model.run(rows);
    for (size_t i = std::max(begin, first); i < end; ++i)
      sums.add(negative_log_probability(logits.subspan((i - std::max(begin, first)) * vocab, vocab),
                                        tokens[i + 1]));
  }
}

}  // namespace

double negative_log_probability(std::span<const float> logits, int32_t token) {
  BF_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size()) << token;
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += kernels::exp_f64(logit - most);
  return kernels::log_f64(sum) + most - logits[static_cast<size_t>(token)];
}

Perplexity measure_perplexity(CachedLayers& layers, std::span<const int32_t> tokens,
                              std::optional<int32_t> bos, const PerplexityOptions& options,
                              const PerplexityProgress& progress) {
  const ScoredModel model{.vocab = layers.model().config.vocab,
                          .positions = layers.positions(),
                          .rows_max = layers.rows_max(),
                          .run = [&](std::span<const BatchRow> rows) { return layers.run(rows); },
                          .forget = [&] { layers.cache().truncate(0, 0); }};
  return measure_perplexity(model, tokens, bos, options, progress);
}

Perplexity measure_perplexity(const ScoredModel& model, std::span<const int32_t> tokens,
                              std::optional<int32_t> bos, const PerplexityOptions& options,
                              const PerplexityProgress& progress) {
  const size_t context = options.context, stride = options.stride;
  if (context < 4) fail(Errc::kInvalidArgument, "a context of {} tokens, expected at least 4", context);
  if (context > model.positions)
    fail(Errc::kInvalidArgument, "chunks of {} tokens, the cache holds {}", context, model.positions);
  if (stride >= context)
    fail(Errc::kInvalidArgument, "a stride of {} tokens, expected less than the context of {}", stride,
         context);
  if (tokens.size() < context)
    fail(Errc::kInvalidArgument,
         "the text has {} tokens, one chunk needs {}; use a longer text or a smaller -c", tokens.size(),
         context);
  const size_t step = stride > 0 ? stride : context;
  const size_t chunks = std::min(options.chunks_max, (tokens.size() - context) / step + 1);
  const size_t first = stride > 0 ? context - stride - 1 : context / 2;
  Sums sums;
  Perplexity result;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    score_chunk(model, tokens.subspan(chunk * step, context), bos, first, sums);
    result = sums.result(chunk + 1);
    if (progress && !progress(result, chunks)) break;
  }
  return result;
}

}  // namespace butterfly::runtime
