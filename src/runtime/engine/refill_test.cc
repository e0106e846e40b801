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

}  // namespace
}  // namespace butterfly::runtime
