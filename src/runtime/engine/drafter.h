// Guesses how a text goes on: from what it has said before (n-gram or prompt lookup, without a second model),
// or with what a block of the model itself predicts.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace butterfly::runtime {

// The last place in `tokens` where their end has stood before. `length` tokens agree (at most kMatchMax
// count); the guess is what came next, from index `next` on.
struct NgramMatch {
  static constexpr size_t kMatchMax = 16;
  static constexpr size_t kLookBack = 16384;  // tokens that are searched
  size_t next = 0;
  size_t length = 0;  // 0: nowhere
};
NgramMatch find_ngram(std::span<const int32_t> tokens);

// What guesses of one source may lose. Costs are paid from a credit that starts small, grows by kIncome
// a step and by what right guesses gain; so a text that is never guessed right loses at most kIncome. And
// while guesses earn nothing, each one that loses doubles the pause before the next; so such a
// text is hardly guessed at all, which keeps the loss small even where costs are misjudged. Plain data.
class GuessBudget {
 public:
  static constexpr double kIncome = 0.01;
  static constexpr double kCreditStart = 0.5;
  static constexpr double kCreditMax = 8;
  static constexpr size_t kPauseMax = 64;  // steps

  // Once for each step. False: not in this one.
  bool begin_step();
  bool pausing() const { return left_ > 0; }
  // Of guesses that are each right with this chance: as many as promise most, and how much. `costs[i]`: of
  // the first i + 1, in tokens.
  struct Plan {
    size_t length = 0;
    double gain = 0;
  };
  Plan best(double chance, std::span<const double> costs) const;
  void learn(double gain);
  double credit() const { return credit_; }

 private:
  double credit_ = kCreditStart;
  double earned_ = 0;  // by guesses alone, the older the less
  size_t pause_ = 0;   // after the last loss, in steps,
  size_t left_ = 0;    // and what is left of it
};

// Decides for one text how much to guess. Guesses are verified by choosing the tokens as if there were no
// guess, so they change the time only, never a token.
//
// A guessed row costs time; a right one saves a step. The longer the end of the text has occurred before and
// the more guesses of that kind were right, the longer the guess: of all lengths the one that promises most
// is taken. What the model predicts is one more kind, with a budget of its own; it is asked for where it
// promises more than the text's past. Of one thread.
class Drafter {
 public:
  // How many tokens the model should predict for the next step; 0: none, or the text's past promises more.
  // `costs` as for propose(), `predicted` with what predicting costs besides. At most once for each step,
  // before propose().
  size_t wish(std::span<const int32_t> tokens, std::span<const double> costs,
              std::span<const double> predicted);
  // Once for each step of the text. Writes at most costs.size() tokens to `draft`. `costs[i]`: of the first
  // i + 1 guessed rows together, in tokens. `predicted`: what the model says, goes before all else.
  void propose(std::span<const int32_t> tokens, std::span<const double> costs, std::vector<int32_t>& draft,
               std::span<const int32_t> predicted = {});
  // How many tokens propose() would guess behind `text` if it were all known.
  size_t promising(std::span<const int32_t> text, std::span<const double> costs) const;
  // For stages that would be idle: how `text` goes on, of which the last `guessed` tokens are guesses
  // themselves. Writes at most `most` tokens, which are likely together with those; none while guesses do not
  // earn.
  void go_on(std::span<const int32_t> text, size_t guessed, size_t most, std::vector<int32_t>& guess);
  // How the last proposal fared, and what it has cost, in tokens.
  void learn(size_t drafted, size_t accepted, double cost);

  double credit() const { return past_.credit(); }

 private:
  struct Odds {
    double right, tried;
    double chance() const { return right / tried; }
  };
  static constexpr size_t kPredicted = 4;  // the kind behind those of matches
  static void copy(std::span<const int32_t> text, size_t from, size_t length, std::vector<int32_t>& guess);

  // By length of the match: 2, 3-4, 5-8, more; then what the model predicts. Counted as if two guesses had
  // been made before.
  std::array<Odds, 5> odds_ = {{{0.5, 2}, {0.9, 2}, {1.3, 2}, {1.6, 2}, {1.5, 2}}};
  GuessBudget past_, predictions_;
  size_t kind_ = 0;  // of the last proposal
};

}  // namespace butterfly::runtime
