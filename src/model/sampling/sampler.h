// Chooses the next token from logits.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/sampling/logit_scan.h"
#include "model/sampling/weighted_order.h"

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
//  - A token weighs exp(logit - largest), counted in whole units (kernels/rows/weight_units.h): top-p keeps
//    the first ones in order that have top_p of all units together. min-p keeps what is not below
//    largest + ln(min_p).
//  - What is left weighs exp((logit - largest) / temperature), in units again, and the draw takes the first
//    one up to which there are more units than the random number's share of them.
//
// So every sum is exact, and no way of computing it can show. The token is a function of (settings, logits,
// history, position) alone: the random number is keyed by (seed, position), and nothing is kept between calls
// but scratch memory. So a stream can go on anywhere from its token log. One thread.
class Sampler {
 public:
  explicit Sampler(SamplerSettings settings);

  // `history`: the tokens before, prompt included. `position`: index of the token to choose in the whole
  // text. `allowed`: a mask as token_constraint.h has it; empty: all tokens. Throws Error kInvalidArgument
  // for logits that are not numbers, ids outside them, or when no token can be chosen.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t position,
                 std::span<const uint64_t> allowed = {});

  // The tokens that the last sample() could have chosen, with their probabilities; the logits must still be
  // there. In order (logit down, id up), but in the order of ids when neither top-k, top-p nor min-p is on.
  // After a greedy choice only the chosen one.
  std::span<const Candidate> candidates();
  double probability(const Candidate& candidate) const { return candidate.weight / total_weight_; }

  // A choice depends on the first so many logits in order alone: the others may as well be -infinity. 0: on
  // all of them.
  size_t candidates_max() const;

  const SamplerSettings& settings() const { return settings_; }

 private:
  std::span<const float> adjust(std::span<const float> logits, std::span<const int32_t> history,
                                std::span<const uint64_t> allowed);
  void forbid(std::span<const float> logits, std::span<const uint64_t> allowed);
  void penalise(std::span<const int32_t> history);
  int32_t draw_from_top_k(uint64_t position);
  int32_t draw_from_cut(uint64_t position);
  int32_t draw_from_all(uint64_t position);
  uint64_t draw_units(uint64_t units, uint64_t position);

  SamplerSettings settings_;
  LogitScan scan_;
  WeightedOrder order_;
  std::vector<float> adjusted_;
  std::vector<uint64_t> sums_;  // of blocks
  std::vector<int32_t> recent_;

  // What the last choice was made from.
  enum class Kept { kListed, kCut, kAll } kept_ = Kept::kListed;
  std::vector<Candidate> candidates_;  // kListed
  Candidate last_;                     // kCut: all up to it
  kernels::WeightScale scale_;
  double total_weight_ = 1;
};

}  // namespace butterfly::model
