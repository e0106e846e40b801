#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/layers/cached_layers.h"

namespace butterfly::testing {
namespace {

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float logit : logits) total += std::exp(logit - max);
  std::vector<double> result;
  for (float logit : logits) result.push_back(logit - max - std::log(total));
  return result;
}

}  // namespace

Comparison compare(std::span<const float> theirs, std::span<const float> ours, size_t vocab, double noise,
                   size_t left_out) {
  Comparison result;
  const size_t rows = theirs.size() / vocab;
  result.positions = rows;
  std::vector<double> divergences;
  for (size_t r = 0; r < rows; ++r) {
    const auto p = log_probabilities(theirs.subspan(r * vocab, vocab));
    const auto q = log_probabilities(ours.subspan(r * vocab, vocab));
    double divergence = 0;
    for (size_t i = 0; i < vocab; ++i) {
      divergence += std::exp(p[i]) * (p[i] - q[i]);
      result.worst_logit =
          std::max(result.worst_logit, std::abs(double{theirs[r * vocab + i]} - ours[r * vocab + i]));
    }
    divergences.push_back(divergence);
    auto sorted = p;
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const bool equal =
        std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
    const double best = *std::max_element(p.begin(), p.end());
    result.top1_equal += equal;
    if (best - sorted[1] > noise) {
      ++result.decided;
      result.decided_equal += equal;
    }
  }
  std::sort(divergences.begin(), divergences.end());
  for (size_t r = 0; r < rows; ++r) {
    result.mean_kl += divergences[r] / static_cast<double>(rows);
    if (r + left_out < rows) result.usual_kl += divergences[r] / static_cast<double>(rows - left_out);
  }
  return result;
}

Bounds bounds_of(DType type) {
  if (type == DType::kF32) return {1e-6, 2e-3};
  if (type == DType::kF16) return {1e-3, 2e-2};
  return {1e-3, 0.2};
}

void expect_agreement(const std::string& name, DType type, std::span<const float> theirs,
                      std::span<const float> ours, size_t positions, size_t left_out) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  const Bounds bounds = bounds_of(type);
  const Comparison c = compare(theirs, ours, ours.size() / positions, bounds.noise, left_out);
  fmt::print("{}  mean KL {:8.2e}  largest logit difference {:8.2e}  top-1 {}/{}, decided {}/{}\n", name,
             c.mean_kl, c.worst_logit, c.top1_equal, positions, c.decided_equal, c.decided);
  EXPECT_LE(c.usual_kl, bounds.mean_kl) << name;
  EXPECT_EQ(c.decided_equal, c.decided) << name;
  EXPECT_GE(c.decided, positions / 2) << name << ": too few positions decide anything";
}

std::vector<float> our_logits(const std::filesystem::path& path, const std::vector<int32_t>& tokens,
                              size_t context, std::vector<model::AdapterSpec> adapters) {
  ThreadPool pool(2);
  runtime::LoadOptions options;
  options.with_tokenizer = false;
  options.context = context;
  options.adapters = std::move(adapters);
  const auto model = load_model(path, pool, options);
  runtime::CachedLayers layers(
      *model, pool, {.positions = context, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<runtime::BatchRow> rows;
  for (int32_t token : tokens) rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
  const auto logits = layers.run(rows);
  return {logits.begin(), logits.end()};
}

}  // namespace butterfly::testing
