#include "runtime/engine/stage_cache.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

constexpr size_t kDim = 4;
constexpr uint64_t kPageOfRows = 32 * kDim * sizeof(float);
const model::CacheShape kShape{
    std::vector<model::LayerState>(12, {.kind = model::StateKind::kFull, .kv_heads = 1, .head_dim = 16}),
    DType::kF16};
const model::CacheRoom kRoom{.pages = {4, 0, 0}};

// A cache of four pages with layers 2 to 4.
struct StageCacheTest : ::testing::Test {
  StageCacheTest() { cache.extend_to(2, 5); }

  // Tokens into a page, through all layers or some.
  Lineage write(uint32_t page, std::vector<int32_t> tokens, size_t first = 0, Lineage before = kNoText,
                size_t begin = 2, size_t end = 5) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      before = lineage_after(before, tokens[i]);
      cache.name(page, first + i, before);
      cache.wrote(page, first + i, begin, end);
    }
    return before;
  }
  std::vector<uint8_t> counts(const PageClaim& claim) const {
    CacheReport report;
    cache.report({&claim, 1}, report);
    std::vector<uint8_t> counts;
    for (const auto& layer : report.layers) counts.push_back(layer[0]);
    return counts;
  }
  std::vector<std::pair<size_t, uint8_t>> rows(const PageClaim& claim) const {
    CacheReport report;
    cache.report({&claim, 1}, report);
    std::vector<std::pair<size_t, uint8_t>> rows;
    for (const auto& place : report.rows) rows.emplace_back(place.behind, place.filled[0]);
    return rows;
  }
  StageCache cache{kShape, {.room = kRoom, .dim = kDim, .rows_bytes_max = 2 * kPageOfRows}};
};
using Counts = std::vector<uint8_t>;

TEST_F(StageCacheTest, SaysWhatWasWrittenUnderThatNameOnly) {
  const Lineage name = write(1, {5, 6, 7});
  EXPECT_EQ(counts({1, 3, name}), Counts({3, 3, 3}));
  EXPECT_EQ(counts({1, 2, name}), Counts({0, 0, 0})) << "another position";
  EXPECT_EQ(counts({0, 3, name}), Counts({0, 0, 0})) << "another page";
  EXPECT_EQ(counts({1, 3, lineage_after(name, 1)}), Counts({0, 0, 0}));
  EXPECT_EQ(counts({9, 3, name}), Counts({0, 0, 0})) << "a page that is not there";
  EXPECT_EQ(counts({1, 33, name}), Counts({0, 0, 0}));
}

TEST_F(StageCacheTest, APageThatIsUsedForAnotherTextIsNotTheOldOneAnyMore) {
  const Lineage old = write(1, {5, 6, 7});
  const Lineage other = write(1, {4});
  EXPECT_EQ(counts({1, 3, old}), Counts({0, 0, 0}));
  EXPECT_EQ(counts({1, 1, other}), Counts({1, 1, 1}));
  // Nor when the old text's end is written behind the new beginning.
  write(1, {6, 7}, 1, other);
  EXPECT_EQ(counts({1, 3, old}), Counts({0, 0, 0}));
  // The same tokens at the same place are the same bits, whoever wrote them.
  write(1, {5, 6, 7});
  EXPECT_EQ(counts({1, 3, old}), Counts({3, 3, 3}));
}

TEST_F(StageCacheTest, AGuessThatWasWrongIsWrittenOver) {
  Lineage name = write(0, {1, 2, 3, 4});
  const Lineage two = lineage_after(lineage_after(kNoText, 1), 2);
  name = write(0, {9}, 2, two);
  EXPECT_EQ(counts({0, 3, name}), Counts({3, 3, 3}));
  EXPECT_EQ(counts({0, 2, two}), Counts({2, 2, 2}));
}

TEST_F(StageCacheTest, LayersThatStayKeepWhatTheyHold) {
  const Lineage name = write(3, {1, 2});
  std::byte* const kept = cache.memory().step({}, {}).layers[1].base;
  kept[7] = std::byte{42};
  cache.shrink_to(3, 9);
  cache.extend_to(3, 9);
  EXPECT_EQ(counts({3, 2, name}), Counts({2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(cache.memory().step({}, {}).layers[0].base, kept);
  EXPECT_EQ(kept[7], std::byte{42});
  cache.shrink_to(0, 4);
  cache.extend_to(0, 4);
  EXPECT_EQ(counts({3, 2, name}), Counts({0, 0, 0, 2}));
  write(3, {1, 2}, 0, kNoText, 0, 3);
  EXPECT_EQ(counts({3, 2, name}), Counts({2, 2, 2, 2})) << "filled again beside it";
  cache.shrink_to(7, 9);
  cache.extend_to(7, 9);
  EXPECT_EQ(counts({3, 2, name}), Counts({0, 0}));
}

TEST_F(StageCacheTest, AHoleIsNotFilledByWhatIsBehindIt) {
  const Lineage one = write(0, {1});
  const Lineage two = write(0, {2}, 1, one, 2, 4);
  const Lineage three = write(0, {3}, 2, two);
  EXPECT_EQ(counts({0, 3, three}), Counts({3, 3, 1}));
  EXPECT_FALSE(cache.holds(0, 2, 2, 5));
  EXPECT_TRUE(cache.holds(0, 2, 2, 4));
}

TEST_F(StageCacheTest, AFailedStepLeavesNothingInDoubt) {
  const Lineage name = write(0, {1, 2, 3});
  cache.doubt(0, 1, 3, 4);
  EXPECT_EQ(counts({0, 3, name}), Counts({3, 1, 3}));
  cache.forget_all();
  EXPECT_EQ(counts({0, 3, name}), Counts({0, 0, 0}));
}

TEST_F(StageCacheTest, RowsAreKeptWithinTheirBound) {
  bool used[4] = {true, true, true, true};
  const auto in_use = [&](uint32_t page) { return used[page]; };
  const auto keep = [&](uint32_t page, size_t offset) {
    const std::vector<float> row(kDim, static_cast<float>(100 * page + offset));
    cache.keep_row(page, offset, row, in_use);
  };
  const Lineage name = write(0, {1, 2});
  for (const uint32_t page : {1u, 2u}) write(page, {1, 2});
  for (const uint32_t page : {0u, 1u, 2u})
    for (const size_t offset : {0u, 1u}) keep(page, offset);
  EXPECT_EQ(cache.kept_row_bytes(), 2 * kPageOfRows);
  ASSERT_NE(cache.row(5, 1, 1), nullptr);
  EXPECT_EQ(cache.row(5, 1, 1)[kDim - 1], 101);
  EXPECT_EQ(cache.row(5, 2, 0), nullptr) << "no room while both texts are here";
  EXPECT_EQ(cache.row(4, 1, 1), nullptr);
  EXPECT_EQ(rows({0, 2, name}), (std::vector<std::pair<size_t, uint8_t>>{{5, 2}}));
  used[0] = false;
  for (const size_t offset : {0u, 1u}) keep(2, offset);
  EXPECT_EQ(cache.row(5, 0, 0), nullptr);
  EXPECT_EQ(cache.row(5, 2, 1)[0], 201);
  write(2, {8});
  EXPECT_EQ(cache.row(5, 2, 0), nullptr) << "another text";
  keep(2, 1);
  EXPECT_EQ(cache.row(5, 2, 1), nullptr) << "without the row before it";
}

TEST_F(StageCacheTest, RowsStayWhereALayerHereCanBeginWithThem) {
  const auto in_use = [](uint32_t) { return true; };
  const std::vector<float> row(kDim);
  const Lineage name = write(0, {1});
  cache.keep_row(0, 0, row, in_use);
  cache.shrink_to(2, 7);
  cache.extend_to(2, 7);
  EXPECT_EQ(rows({0, 1, name}), (std::vector<std::pair<size_t, uint8_t>>{{5, 1}}));
  cache.keep_row(0, 0, row, in_use);
  EXPECT_EQ(rows({0, 1, name}), (std::vector<std::pair<size_t, uint8_t>>{{5, 1}, {7, 1}}));
  cache.drop_old_rows();
  EXPECT_EQ(rows({0, 1, name}), (std::vector<std::pair<size_t, uint8_t>>{{7, 1}}));
  cache.shrink_to(2, 6);
  cache.extend_to(2, 6);
  EXPECT_TRUE(rows({0, 1, name}).empty()) << "they belong behind a layer that is elsewhere now";
}

// Layers 2 and 4 keep positions, layer 3 a state, in one of three pages.
struct StageStatesTest : ::testing::Test {
  StageStatesTest() { cache.extend_to(2, 5); }
  std::vector<uint8_t> counts(const PageClaim& claim) const {
    CacheReport report;
    cache.report({&claim, 1}, report);
    std::vector<uint8_t> counts;
    for (const auto& layer : report.layers) counts.push_back(layer[0]);
    return counts;
  }
  PageClaim state(uint32_t page, const Lineage& behind) const {
    return {page, 1, behind, graph::PageKind::kState};
  }
  static model::CacheShape shape() {
    model::CacheShape shape = kShape;
    shape.layers[3] = {.kind = model::StateKind::kRecurrent, .state_floats = 16, .guess_floats = 4};
    return shape;
  }
  StageCache cache{shape(), {.room = {.pages = {4, 0, 3}, .sequences = 2}, .dim = kDim}};
  const Lineage five = lineage_after(kNoText, 5), six = lineage_after(five, 6);
};

TEST_F(StageStatesTest, AStateHasTheNameOfTheLastPositionItHasSeen) {
  cache.wrote_state(1, five, 2, 5);
  EXPECT_EQ(counts(state(1, five)), Counts({1, 1, 1})) << "layers without states lack none";
  EXPECT_EQ(counts(state(1, six)), Counts({1, 0, 1}));
  EXPECT_EQ(counts(state(2, five)), Counts({1, 0, 1}));
  EXPECT_EQ(counts(state(3, five)), Counts({1, 0, 1})) << "a page that is not there";
  EXPECT_TRUE(cache.holds_state(1, five, 2, 5));
  cache.wrote_state(1, six, 2, 5);
  EXPECT_EQ(counts(state(1, five)), Counts({1, 0, 1})) << "it cannot go back";
  cache.doubt_state(1, 3, 4);
  EXPECT_FALSE(cache.holds_state(1, six, 2, 5));
  EXPECT_TRUE(cache.holds_state(1, six, 4, 5));
  EXPECT_FALSE(cache.holds_state(1, kNoText, 2, 5)) << "nothing is nobody's name";
}

TEST_F(StageStatesTest, PositionsAreNoConcernOfRecurrentLayers) {
  cache.name(0, 0, five);
  cache.wrote(0, 0, 2, 3);
  EXPECT_EQ(counts({0, 1, five}), Counts({1, 1, 0}));
  cache.wrote(0, 0, 4, 5);
  EXPECT_TRUE(cache.holds(0, 1, 2, 5));
  EXPECT_EQ(counts({1, 1, five}), Counts({0, 0, 0}))
      << "behind a page that is another's now nothing has a name";
}

TEST_F(StageStatesTest, LayersThatStayKeepTheirStates) {
  cache.wrote_state(1, five, 2, 5);
  cache.shrink_to(3, 6);
  cache.extend_to(1, 6);
  EXPECT_EQ(counts(state(1, five)), Counts({1, 1, 1, 1, 1})) << "layers 1 to 5";
  cache.shrink_to(4, 6);
  cache.extend_to(3, 6);
  EXPECT_EQ(counts(state(1, five)), Counts({0, 1, 1}));
  cache.wrote_state(1, five, 3, 6);
  cache.forget_all();
  EXPECT_EQ(counts(state(1, five)), Counts({0, 1, 1}));
}

}  // namespace
}  // namespace butterfly::runtime
