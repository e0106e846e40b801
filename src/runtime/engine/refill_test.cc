#include "runtime/engine/refill.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

// Six layers and one page of 32; the numbers are positions that are there.
CacheReport report(std::vector<uint8_t> layers, std::vector<std::pair<size_t, uint8_t>> rows = {}) {
  CacheReport report{.claims = 1, .layers = {}, .rows = {}};
  for (const uint8_t filled : layers) report.layers.push_back({filled});
  for (const auto& [behind, filled] : rows) report.rows.push_back({behind, {filled}});
  return report;
}

using Spans = std::vector<LayerSpan>;

TEST(Refill, NothingWhereAllIsThere) {
  EXPECT_TRUE(refill_of(report({32, 32, 32}), 0, 32).empty());
  EXPECT_TRUE(refill_of(report({7, 7, 7}), 0, 7).empty());
}

TEST(Refill, FromTheTokensThroughTheLayersBefore) {
  const PageRefill refill = refill_of(report({32, 32, 0, 0, 32, 32}), 0, 32);
  EXPECT_EQ(refill.spans, Spans({{0, 4}}));
  EXPECT_EQ(refill.first, 0u);
  EXPECT_EQ(refill.count, 32u);
}

TEST(Refill, FromTheNearestRowsInFrontOfWhatIsMissing) {
  EXPECT_EQ(refill_of(report({32, 32, 0, 0, 32, 32}, {{1, 32}, {2, 32}}), 0, 32).spans, Spans({{2, 4}}));
  EXPECT_EQ(refill_of(report({32, 32, 0, 0, 32, 32}, {{1, 32}, {2, 31}}), 0, 32).spans, Spans({{1, 4}}))
      << "one row is missing";
  EXPECT_EQ(refill_of(report({32, 32, 0, 0, 32, 32}, {{3, 32}}), 0, 32).spans, Spans({{0, 4}}))
      << "behind it";
}

TEST(Refill, TwoPlacesAreFilledApartIfRowsAreBetweenThem) {
  EXPECT_EQ(refill_of(report({0, 32, 32, 32, 0, 32}, {{4, 32}}), 0, 32).spans, Spans({{0, 1}, {4, 5}}));
  EXPECT_EQ(refill_of(report({0, 32, 32, 32, 0, 32}), 0, 32).spans, Spans({{0, 5}}));
  EXPECT_EQ(refill_of(report({32, 0, 32, 32, 0, 32}, {{1, 32}}), 0, 32).spans, Spans({{1, 5}}));
}

TEST(Refill, OnlyThePositionsThatSomeLayerLacks) {
  const PageRefill refill = refill_of(report({20, 9, 12}), 0, 20);
  EXPECT_EQ(refill.first, 9u);
  EXPECT_EQ(refill.count, 20u);
  EXPECT_EQ(refill.spans, Spans({{0, 3}}));
}

// Six layers, of which 1 and 4 are recurrent; a text of 70 positions in blocks of 32. Claims: its three
// pages, the state behind 70, the state behind 64.
struct TextRefillTest : ::testing::Test {
  TextRefillTest() {
    for (size_t layer = 0; layer < 6; ++layer) report.layers.push_back({32, 32, 6, 1, 1});
    text = {.pages = {0, 1, 2}, .last = {{70, 3}}, .block_end = {{64, 4}}};
  }
  void lose(size_t layer) {
    if (layer == 1 || layer == 4) {
      report.layers[layer] = {32, 32, 6, 0, 0};
    } else {
      report.layers[layer] = {0, 0, 0, 1, 1};
    }
  }
  void expect(size_t position, const Spans& spans) {
    const TextRefill refill = refill_of(report, text, 32);
    EXPECT_EQ(refill.position, position);
    EXPECT_EQ(refill.spans, spans);
  }
  CacheReport report{.claims = 5, .layers = {}, .rows = {}};
  TextClaims text;
};

TEST_F(TextRefillTest, GoesOnBehindAllThatIsCertain) { expect(70, {}); }

TEST_F(TextRefillTest, OrBehindTheLastBlockWhereAStateIsAhead) {
  report.layers[1][3] = 0;
  expect(64, {});
}

TEST_F(TextRefillTest, LostLayersArePassedByAllRows) {
  for (const size_t layer : {3, 4}) lose(layer);
  expect(70, {{0, 5}});
  report.rows = {{3, {32, 32, 6, 0, 0}}};
  expect(70, {{3, 5}});
  report.layers[1][3] = 0;
  expect(64, {{3, 5}});
  report.rows[0].filled[2] = 0;  // behind where it goes on
  expect(64, {{3, 5}});
  report.rows[0].filled[1] = 31;
  expect(64, {{0, 5}});
}

// Rows of some pages only would come behind others than at first.
TEST_F(TextRefillTest, APageThatIsLostMeansAllRows) {
  report.layers[2] = {32, 5, 6, 1, 1};
  expect(70, {{0, 3}});
}

TEST_F(TextRefillTest, WithoutAStateAtTheEndOfABlockTheLastOneIsComputed) {
  text.block_end.reset();
  report.layers[1][3] = 0;
  expect(70, {{0, 2}});
}

TEST_F(TextRefillTest, ATextThatHasNotBegunBeginsThere) {
  text = {};
  expect(0, {});
}

}  // namespace
}  // namespace butterfly::runtime
