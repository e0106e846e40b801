#include "runtime/engine/drafter.h"

#include <algorithm>
#include <cmath>

namespace butterfly::runtime {
namespace {

constexpr size_t kLengthMin = 2;  // a single token says too little
constexpr double kForget = 0.95;  // older guesses count less and less
// Of all tokens that a step takes for granted which begins before its text is known.
constexpr double kAheadChance = 0.5;

size_t kind_of(size_t length) { return length <= 2 ? 0 : length <= 4 ? 1 : length <= 8 ? 2 : 3; }

// How many tokens before `end` agree with the end of the text.
size_t agreement(std::span<const int32_t> tokens, size_t end) {
  size_t length = 0;
  while (length < end && length < NgramMatch::kMatchMax &&
         tokens[end - 1 - length] == tokens[tokens.size() - 1 - length])
    ++length;
  return length;
}

}  // namespace

NgramMatch find_ngram(std::span<const int32_t> tokens) {
  NgramMatch best;
  if (tokens.size() < 2) return best;
  const int32_t last = tokens.back();
  const size_t begin = tokens.size() > NgramMatch::kLookBack ? tokens.size() - NgramMatch::kLookBack : 0;
  for (size_t end = tokens.size() - 1; end > begin; --end) {
    if (tokens[end - 1] != last) continue;
    const size_t length = agreement(tokens, end);
    if (length > best.length) best = {end, length};
    if (best.length == NgramMatch::kMatchMax) break;
  }
  return best;
}

bool GuessBudget::begin_step() {
  credit_ = std::min(credit_ + kIncome, kCreditMax);
  if (left_ == 0) return true;
  --left_;
  return false;
}

// What is right before the first wrong one, less what all of them cost.
GuessBudget::Plan GuessBudget::best(double chance, std::span<const double> costs) const {
  Plan best;
  double right = 0, all_right = chance;
  for (size_t i = 0; i < costs.size() && costs[i] <= credit_; ++i) {
    right += all_right;
    all_right *= chance;
    if (right - costs[i] > best.gain) best = {i + 1, right - costs[i]};
  }
  return best;
}

void GuessBudget::learn(double gain) {
  credit_ = std::clamp(credit_ + gain, -kCreditMax, kCreditMax);
  earned_ = kForget * earned_ + gain;
  if (earned_ >= 0) {
    pause_ = 0;
  } else if (gain < 0) {
    pause_ = std::clamp(2 * pause_, size_t{1}, kPauseMax);
  }
  left_ = pause_;
}

size_t Drafter::wish(std::span<const int32_t> tokens, std::span<const double> costs,
                     std::span<const double> predicted) {
  if (!predictions_.begin_step()) return 0;
  const GuessBudget::Plan plan = predictions_.best(odds_[kPredicted].chance(), predicted);
  if (plan.length == 0 || past_.pausing()) return plan.length;
  const NgramMatch match = find_ngram(tokens);
  if (match.length >= kLengthMin && past_.best(odds_[kind_of(match.length)].chance(), costs).gain > plan.gain)
    return 0;
  return plan.length;
}

void Drafter::propose(std::span<const int32_t> tokens, std::span<const double> costs,
                      std::vector<int32_t>& draft, std::span<const int32_t> predicted) {
  draft.clear();
  const bool may = past_.begin_step();
  if (!predicted.empty()) {
    kind_ = kPredicted;
    predicted = predicted.first(std::min(predicted.size(), costs.size()));
    draft.assign(predicted.begin(), predicted.end());
    return;
  }
  if (!may || costs.empty() || costs[0] > past_.credit()) return;
  const NgramMatch match = find_ngram(tokens);
  if (match.length < kLengthMin) return;
  kind_ = kind_of(match.length);
  copy(tokens, match.next, past_.best(odds_[kind_].chance(), costs).length, draft);
}

size_t Drafter::promising(std::span<const int32_t> text, std::span<const double> costs) const {
  if (past_.pausing()) return 0;
  const NgramMatch match = find_ngram(text);
  return match.length < kLengthMin ? 0 : past_.best(odds_[kind_of(match.length)].chance(), costs).length;
}

void Drafter::copy(std::span<const int32_t> text, size_t from, size_t length, std::vector<int32_t>& guess) {
  for (; guess.size() < length; ++from)
    // Where the earlier place runs into the end of the text, the text repeats itself: so does the guess.
    guess.push_back(from < text.size() ? text[from] : guess[from - text.size()]);
}

void Drafter::go_on(std::span<const int32_t> text, size_t guessed, size_t most, std::vector<int32_t>& guess) {
  guess.clear();
  if (past_.pausing()) return;
  const NgramMatch match = find_ngram(text);
  if (match.length < kLengthMin) return;
  const double chance = odds_[kind_of(match.length)].chance();
  size_t length = 0;
  double all_right = std::pow(chance, static_cast<double>(guessed + 1));
  for (; length < most && all_right >= kAheadChance; all_right *= chance) ++length;
  if (length == 0) return;
  kind_ = kind_of(match.length);
  copy(text, match.next, length, guess);
}

void Drafter::learn(size_t drafted, size_t accepted, double cost) {
  (kind_ == kPredicted ? predictions_ : past_).learn(static_cast<double>(accepted) - cost);
  Odds& odds = odds_[kind_];
  for (size_t i = 0; i < std::min(drafted, accepted + 1);
       ++i) {  // what comes after a wrong one was not tried
    odds.right = kForget * odds.right + (i < accepted ? 1 : 0);
    odds.tried = kForget * odds.tried + 1;
  }
}

}  // namespace butterfly::runtime
