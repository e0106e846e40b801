// Guesses come from the text's own past, pay for themselves, and stop when they do not.
#include "runtime/engine/drafter.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace butterfly::runtime {
namespace {

using Tokens = std::vector<int32_t>;

TEST(FindNgram, TheLongestMatchWinsThenTheLatest) {
  EXPECT_EQ(find_ngram(Tokens{}).length, 0u);
  EXPECT_EQ(find_ngram(Tokens{1}).length, 0u);
  EXPECT_EQ(find_ngram(Tokens{1, 2, 3}).length, 0u);
  const NgramMatch two = find_ngram(Tokens{1, 2, 3, 9, 2, 4, 1, 2});
  EXPECT_EQ(two.length, 2u);
  EXPECT_EQ(two.next, 2u) << "1 2 stood in front; the later 2 alone is shorter";
  const NgramMatch latest = find_ngram(Tokens{1, 2, 3, 1, 2, 4, 1, 2});
  EXPECT_EQ(latest.next, 5u);
  EXPECT_EQ(find_ngram(Tokens{7, 7, 7}).length, 2u);
}

// Rows that all cost the same.
std::vector<double> costs(size_t rows, double row_cost) {
  std::vector<double> all;
  for (size_t i = 1; i <= rows; ++i) all.push_back(static_cast<double>(i) * row_cost);
  return all;
}

TEST(Drafter, GoesOnWhereTheTextHasBeen) {
  Drafter drafter;
  Tokens text;
  for (int32_t i = 0; i < 20; ++i) text.push_back(i);
  for (int32_t i = 0; i < 10; ++i) text.push_back(i);
  Tokens draft;
  drafter.propose(text, costs(4, 0.1), draft);
  EXPECT_EQ(draft, (Tokens{10, 11, 12, 13}));
  drafter.propose(text, costs(2, 0.1), draft);
  EXPECT_EQ(draft, (Tokens{10, 11}));
  drafter.propose(text, costs(0, 0.1), draft);
  EXPECT_TRUE(draft.empty());
}

TEST(Drafter, AShortLoopIsUnrolled) {
  Drafter drafter;
  Tokens draft;
  const Tokens text{5, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2};
  drafter.propose(text, costs(5, 0.05), draft);
  EXPECT_EQ(draft, (Tokens{1, 2, 1, 2, 1}));
}

TEST(Drafter, NothingIsGuessedWhereARowCostsMoreThanAToken) {
  Drafter drafter;
  Tokens draft;
  const Tokens text{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  drafter.propose(text, costs(5, 1.0), draft);
  EXPECT_TRUE(draft.empty());
}

TEST(Drafter, RowsThatAreNearlyFreeBehindADearOneAreTakenOrNone) {
  Tokens text;
  for (int32_t i = 0; i < 40; ++i) text.push_back(i % 20);
  Tokens draft;
  // The step as such costs, not its rows: a likely guess is long at once, within the credit of the start.
  Drafter likely;
  likely.propose(text, std::vector<double>{0.4, 0.42, 0.44, 0.46}, draft);
  EXPECT_EQ(draft.size(), 4u);
  // Two tokens agree: one guess in four is right, and that is not worth it.
  Drafter unlikely;
  unlikely.propose(Tokens{1, 2, 3, 4, 5, 1, 2}, std::vector<double>{0.4, 0.42, 0.44, 0.46}, draft);
  EXPECT_TRUE(draft.empty());
}

TEST(Drafter, WhileNothingIsEarnedEachLossDoublesThePause) {
  Drafter drafter;
  Tokens text;
  for (int32_t i = 0; i < 64; ++i) text.push_back(i % 32);
  Tokens draft;
  std::vector<size_t> guessed_at;
  for (size_t step = 0; step < 200; ++step) {
    drafter.propose(text, costs(1, 0.02), draft);
    if (draft.empty()) continue;
    guessed_at.push_back(step);
    drafter.learn(1, 0, 0.02);
  }
  ASSERT_GE(guessed_at.size(), 6u);
  EXPECT_EQ((std::vector<size_t>(guessed_at.begin(), guessed_at.begin() + 6)),
            (std::vector<size_t>{0, 2, 5, 10, 19, 36}));
}

TEST(Drafter, ADebtIsPaidBackBeforeTheNextGuess) {
  Drafter drafter;
  Tokens text;
  for (int32_t i = 0; i < 64; ++i) text.push_back(i % 32);
  Tokens draft;
  drafter.propose(text, costs(1, 0.1), draft);
  ASSERT_EQ(draft.size(), 1u);
  drafter.learn(1, 0, 1.51);  // it took longer than it looked
  EXPECT_NEAR(drafter.credit(), -1, 1e-9);
  size_t steps = 0;
  for (draft.clear(); draft.empty(); ++steps) drafter.propose(text, costs(1, 0.1), draft);
  EXPECT_GE(steps, 109u) << "at an income of 0.01";
}

// Plays a text: the guess is right as far as it agrees.
struct Played {
  size_t steps = 0, drafted = 0, accepted = 0;
};
Played play(const Tokens& text, double row_cost) {
  Drafter drafter;
  Tokens draft;
  Played played;
  const auto prices = costs(15, row_cost);
  for (size_t at = 2; at < text.size();) {
    drafter.propose(std::span(text).first(at), prices, draft);
    size_t right = 0;
    while (right < draft.size() && at + right + 1 < text.size() && draft[right] == text[at + right]) ++right;
    if (!draft.empty()) drafter.learn(draft.size(), right, prices[draft.size() - 1]);
    EXPECT_GE(drafter.credit(), 0);
    ++played.steps;
    played.drafted += draft.size();
    played.accepted += right;
    at += right + 1;
  }
  return played;
}

TEST(Drafter, TextThatRepeatsItselfNeedsFewSteps) {
  Tokens text;
  for (size_t i = 0; i < 1000; ++i) text.push_back(static_cast<int32_t>(i % 50));
  EXPECT_LT(play(text, 0.2).steps, 250u);
}

TEST(Drafter, LossesAreBoundedHoweverMisleadingTheTextIs) {
  // Of few different tokens, so that something always matches, but random.
  for (uint64_t vocab : {2, 3, 5, 10, 50})
    for (double row_cost : {0.05, 0.2, 0.5, 0.9}) {
      Tokens text;
      for (size_t i = 0; i < 3000; ++i) text.push_back(static_cast<int32_t>(random_u64(1, vocab, i) % vocab));
      const Played played = play(text, row_cost);
      const double lost =
          static_cast<double>(played.drafted) * row_cost - static_cast<double>(played.accepted);
      EXPECT_LE(lost,
                GuessBudget::kCreditStart + GuessBudget::kIncome * static_cast<double>(played.steps) + 1e-9)
          << vocab << " tokens, rows at " << row_cost;
    }
}

TEST(Drafter, PredictionsAreAskedForWhileTheyPay) {
  Drafter drafter;
  Tokens draft;
  const Tokens text{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(drafter.wish(text, costs(4, 0.1), costs(4, 0.6)), 0u) << "beyond the credit";
  EXPECT_EQ(drafter.wish(text, costs(4, 0.1), costs(4, 0.2)), 2u);
  drafter.propose(text, costs(4, 0.1), draft, Tokens{9, 10, 11, 12, 13});
  EXPECT_EQ(draft, (Tokens{9, 10, 11, 12}));
  for (size_t i = 0; i < 20; ++i) drafter.learn(4, 4, 0.8);
  EXPECT_EQ(drafter.wish(text, costs(4, 0.1), costs(4, 0.2)), 4u);
  // A past that repeats itself costs less.
  const Tokens again{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(drafter.wish(again, costs(4, 0.01), costs(4, 0.9)), 0u);
  EXPECT_EQ(drafter.wish(again, costs(4, 0.1), costs(4, 0.1)), 4u);
  // Wrong ones come ever more seldom, and do not keep the text's past from being used.
  size_t asked = 0;
  for (size_t step = 0; step < 1000; ++step)
    if (drafter.wish(text, costs(4, 0.1), costs(4, 0.2)) > 0) {
      ++asked;
      drafter.propose(text, costs(4, 0.1), draft, Tokens{9});
      drafter.learn(1, 0, 0.2);
    }
  EXPECT_LT(asked, 60u);
  drafter.propose(again, costs(4, 0.1), draft);
  EXPECT_EQ(draft, (Tokens{9, 9, 1, 2}));
}

TEST(Drafter, MisleadingTextIsHardlyGuessedAtAll) {
  Tokens text;
  for (size_t i = 0; i < 500; ++i) text.push_back(static_cast<int32_t>(random_u64(2, 9, i) % 8));
  const Played played = play(text, 0.3);
  EXPECT_LE(played.drafted, 12u) << "however little a row costs in truth, this bounds it";
}

}  // namespace
}  // namespace butterfly::runtime
