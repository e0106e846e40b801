// Chooses the next token from logits.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sampling/logit_scan.h"

namespace butterfly::model {

// Names and defaults are llama.cpp's.
struct SamplerSettings {
  float temperature = 0.8f;        // <= 0: greedy
  int32_t top_k = 40;              // <= 0: off
  float top_p = 0.95f;             // >= 1: off
  float min_p = 0.05f;             // <= 0: off
  float repeat_penalty = 1.0f;     // 1: off
  int32_t repeat_last_n = 64;      // how much of the history the penalties see; 0: none, -1: all
  float frequency_penalty = 0.0f;  // times the number of occurrences
  float presence_penalty = 0.0f;   // once if it occurs
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>>
      logit_bias;  // (token, added to its logit); -infinity forbids a token

  // Throws Error kInvalidArgument that names the field.
  void check() const;
};

// Steps, as in llama.cpp's default chain: mask, bias, penalties, top-k, top-p, min-p, temperature, draw.
//
// The token is a function of (settings, logits, history, position) alone: the random number is keyed by
// (seed, position), and nothing is kept between calls but scratch memory. So a stream can go on anywhere from
// its token log. One thread.
class Sampler {
 public:
  explicit Sampler(SamplerSettings settings);

  // `history`: the tokens before, prompt included. `position`: index of the token to choose in the whole
  // text. `allowed`: a mask as token_constraint.h has it; empty: all tokens. Throws Error kInvalidArgument
  // for logits that are not numbers, ids outside them, or when no token can be chosen.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t position,
                 std::span<const uint64_t> allowed = {});

  // The tokens that the last sample() could have chosen, with their probabilities. In order (logit down, id
  // up), but in the order of ids when neither top-k, top-p nor min-p is on; then the logits must still be
  // there. After a greedy choice only the chosen one.
  std::span<const Candidate> candidates();
  double probability(const Candidate& candidate) const { return candidate.weight / total_weight_; }

  const SamplerSettings& settings() const { return settings_; }

 private:
  std::span<const float> adjust(std::span<const float> logits, std::span<const int32_t> history,
                                std::span<const uint64_t> allowed);
  void forbid(std::span<const float> logits, std::span<const uint64_t> allowed);
  void penalise(std::span<const int32_t> history);
  void cut_top_k(float max);
  void cut_from_all(std::span<const float> logits, const Candidate& first);
  void collect(const Candidate& first, double total);
  void weigh(float max);  // by temperature
  int32_t draw(uint64_t position);
  int32_t draw_unsorted(uint64_t position);
  int32_t draw_from_all(std::span<const float> logits, float max, uint64_t position);

  SamplerSettings settings_;
  LogitScan scan_;
  std::vector<float> adjusted_, weights_;
  std::vector<double> sums_;    // of blocks of weights
  std::span<const float> all_;  // after draw_from_all(): what it drew from, with `weights_`
  std::vector<int32_t> recent_;
  std::vector<Candidate> candidates_;
  bool sorted_ = true;  // the candidates
  double total_weight_ = 1;
};

}  // namespace butterfly::model
