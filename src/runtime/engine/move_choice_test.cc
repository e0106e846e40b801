#include "runtime/engine/move_choice.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using graph::PageKind;

constexpr double kRow = 1e-3;  // in a layer

// Two stages of two layers; the second lacks its first layer, which 1000 bytes would bring in 10 ms.
struct MoveChoiceTest : ::testing::Test {
  MoveChoiceTest() {
    claims = {{0, 32, {}}, {1, 8, {}}, {2, 32, {}, PageKind::kFull, false}};
    report.claims = claims.size();
    report.layers = {{32, 8, 32}, {32, 8, 32}, {0, 0, 0}, {32, 8, 32}};
    report.offers = {{.begin = 0, .end = 2},
                     {.begin = 2, .end = 4, .from = 2, .to = 3, .bytes = 1000, .seconds = 0.01}};
  }
  MoveChoice choose() const { return choose_move(report, claims, kRow); }

  std::vector<PageClaim> claims;
  CacheReport report;
};

TEST_F(MoveChoiceTest, SendsWhatIsCheaperToSend) {
  const MoveChoice choice = choose();
  EXPECT_TRUE(choice.offered && choice.send);
  EXPECT_EQ(choice.bytes, 1000u);
  EXPECT_EQ(choice.rows, 40u) << "of texts that run";
  EXPECT_EQ(choice.row_layers, 3 * 40u) << "from the tokens to the missing layer";
  EXPECT_DOUBLE_EQ(choice.read_s, 2 * 40 * kRow) << "the first stage has most to do";
  EXPECT_DOUBLE_EQ(choice.rest_s, 0);
}

TEST_F(MoveChoiceTest, ComputesWhatIsCheaperToCompute) {
  report.offers[1].seconds = 0.09;
  EXPECT_FALSE(choose().send);
  EXPECT_TRUE(choose().offered);
  report.rows = {{2, {32, 8, 32}}};  // rows in front of it were kept: one layer
  report.offers[1].seconds = 0.05;
  EXPECT_FALSE(choose().send);
  EXPECT_EQ(choose().row_layers, 40u);
}

TEST_F(MoveChoiceTest, NothingIsOfferedNothingIsChosen) {
  report.offers[1].bytes = 0;
  EXPECT_FALSE(choose().offered);
  EXPECT_FALSE(choose().send);
  report.offers.clear();
  EXPECT_FALSE(choose().offered);
}

// What nobody has is computed either way.
TEST_F(MoveChoiceTest, TheRestCountsToo) {
  report.layers[3] = {0, 0, 0};
  EXPECT_DOUBLE_EQ(choose().rest_s, 2 * 40 * kRow) << "to the last layer, in both stages";
  EXPECT_FALSE(choose().send) << "the same again, and the transfer";
}

// A layer without its state reads the whole text.
TEST_F(MoveChoiceTest, AStateIsWorthItsText) {
  claims.push_back({0, 1, {}, PageKind::kState});
  report.claims = 4;
  report.layers = {{32, 8, 32, 1}, {32, 8, 32, 1}, {32, 8, 32, 0}, {32, 8, 32, 1}};
  EXPECT_EQ(choose().row_layers, 3 * 40u);
  EXPECT_TRUE(choose().send);
}

TEST_F(MoveChoiceTest, SaysWhatCame) {
  CacheReport after = report;
  after.layers[2] = {32, 0, 0};
  after.offers[1].bytes = 300;
  const PageMove move = outcome_of(choose(), report, after, claims);
  EXPECT_TRUE(move.sent);
  EXPECT_EQ(move.bytes, 700u);
  EXPECT_EQ(move.row_layers, 32u);
}

TEST_F(MoveChoiceTest, TheLimitGrowsWithThePredictionAndIsBounded) {
  MoveChoice choice;
  EXPECT_EQ(move_limit(choice), std::chrono::seconds(1));
  choice.send_s = 2;
  EXPECT_EQ(move_limit(choice), std::chrono::seconds(5));
  choice.rest_s = 1, choice.read_s = 13;  // so much is worth some waiting
  EXPECT_EQ(move_limit(choice), std::chrono::seconds(7));
  choice.send_s = 1e300;
  EXPECT_EQ(move_limit(choice), std::chrono::seconds(30));
}

}  // namespace
}  // namespace butterfly::runtime
