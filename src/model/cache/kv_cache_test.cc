// Pages come and go, bounded and never twice.
#include "model/cache/kv_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "base/error.h"

namespace butterfly::model {
namespace {

CacheShape small_shape(DType type = DType::kF16, size_t head_dim = 32) {
  return {std::vector<LayerState>(2, {.kind = StateKind::kFull, .kv_heads = 3, .head_dim = head_dim}), type};
}

TEST(KvCache, PagesAreLentOnceAndComeBack) {
  KvCache cache(small_shape(), 100, 2);  // four pages
  EXPECT_EQ(cache.free_positions(), 128u);
  EXPECT_TRUE(cache.reserve(0, 33));
  EXPECT_TRUE(cache.reserve(0, 40));  // already there
  EXPECT_EQ(cache.free_positions(), 64u);
  EXPECT_FALSE(cache.reserve(1, 65));
  EXPECT_EQ(cache.free_positions(), 64u) << "a refused request changes nothing";
  EXPECT_TRUE(cache.reserve(1, 64));
  cache.truncate(0, 32);
  EXPECT_EQ(cache.free_positions(), 32u);
  cache.truncate(0, 0);
  EXPECT_EQ(cache.free_positions(), 64u);
}

TEST(KvCache, NoPageBelongsToTwoSequences) {
  EXPECT_TRUE(rc::check([] {
    KvCache cache(small_shape(), 320, 3);
    const auto moves = *rc::gen::container<std::vector<std::pair<uint8_t, uint8_t>>>(
        rc::gen::arbitrary<std::pair<uint8_t, uint8_t>>());
    for (const auto& [what, amount] : moves) {
      if (what % 2 == 0) {
        (void)cache.reserve(what / 2 % 3, amount);
      } else {
        cache.truncate(what / 2 % 3, amount);
      }
      std::set<uint32_t> seen;
      size_t lent = 0;
      const graph::KvStep step = cache.step({});
      for (const auto& pages : step.page_ids[0])
        for (uint32_t page : pages) {
          seen.insert(page);
          ++lent;
        }
      RC_ASSERT(seen.size() == lent);
      RC_ASSERT(cache.free_positions() == (10 - lent) * 32);
    }
  }));
}

TEST(KvCache, BytesAndTypes) {
  EXPECT_EQ(bytes_per_position(small_shape().layers, DType::kF16), 2u * 3 * 2 * 32 * 2);
  EXPECT_EQ(KvCache(small_shape(), 100, 2).bytes(), 128u * 2 * 3 * 2 * 32 * 2);
  EXPECT_THROW(KvCache(small_shape(DType::kQ8_0, 40), 32, 1), Error);
}

LayerState window_of(size_t window) {
  return {.kind = StateKind::kWindow, .kv_heads = 3, .head_dim = 32, .window = window};
}
LayerState recurrent() { return {.kind = StateKind::kRecurrent, .state_floats = 100, .guess_floats = 10}; }

TEST(CacheRoom, AWindowIsCutWhereThatSavesPages) {
  const std::vector<LayerState> layers = {small_shape().layers[0], window_of(64), window_of(40)};
  const CacheRoom room = cache_room(layers, {.positions = 4096, .sequences = 2, .rows_max = 64});
  EXPECT_EQ(room.of(PageKind::kFull), 128u);
  EXPECT_EQ(room.window, 64u);
  EXPECT_EQ(room.of(PageKind::kWindow), 3u * 4 + 2);
  EXPECT_EQ(state_bytes(layers[1], DType::kF16, room) * 128, state_bytes(layers[0], DType::kF16, room) * 14);
  // As many as all positions, or not wanted: they share the pages of the others.
  for (const CacheRoom& whole :
       {cache_room(layers, {.positions = 256, .sequences = 2, .rows_max = 64}),
        cache_room(layers, {.positions = 4096, .sequences = 2, .rows_max = 64, .cut_windows = false})}) {
    EXPECT_EQ(whole.window, 0u);
    EXPECT_FALSE(whole.has_more_kinds());
    EXPECT_EQ(page_kind(layers[1], whole), PageKind::kFull);
    EXPECT_EQ(state_bytes(layers[1], DType::kF16, whole), state_bytes(layers[0], DType::kF16, whole));
  }
}

TEST(CacheRoom, AStateHasOneSizeForAnyContext) {
  const std::vector<LayerState> layers = {small_shape().layers[0], recurrent()};
  const CacheRoom few = cache_room(layers, {.positions = 256, .sequences = 2});
  const CacheRoom many = cache_room(layers, {.positions = 1 << 20, .sequences = 2});
  EXPECT_EQ(state_bytes(layers[1], DType::kF16, few), state_bytes(layers[1], DType::kF16, many));
  EXPECT_EQ(page_kind(layers[1], few), PageKind::kState);
  EXPECT_EQ(describe(layers),
            "1 of 2 layers keep all positions; 1 of 2 layers keep a recurrent state of 400 B");
}

TEST(KvCache, AStateGoesOnOrBeginsAgain) {
  KvCache cache({{small_shape().layers[0], recurrent()}, DType::kF16}, 128, 2);
  const std::vector<graph::KvRow> first = {{1, 0}, {1, 1}, {0, 0}};
  for (const graph::KvRow& row : first) ASSERT_TRUE(cache.reserve(row.sequence, row.position + 1));
  const auto runs = cache.step(first).state_runs;
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].sequence, 1u);
  EXPECT_EQ(runs[0].certain, 2u);
  EXPECT_EQ(runs[0].from, graph::kNoPage);
  const std::vector<graph::KvRow> again = {{1, 1}};
  EXPECT_THROW(cache.step(again), Error) << "it cannot go back";
  const std::vector<graph::KvRow> next = {{0, 1}};
  EXPECT_EQ(cache.step(next).state_runs[0].from, 0u);
  cache.truncate(1, 0);
  ASSERT_TRUE(cache.reserve(1, 1));
  const std::vector<graph::KvRow> anew = {{1, 0}};
  EXPECT_EQ(cache.step(anew).state_runs[0].from, graph::kNoPage);
  const std::vector<graph::KvRow> apart = {{1, 1}, {0, 2}, {1, 2}};
  EXPECT_THROW(cache.step(apart), Error) << "rows of a sequence stand together";
}

}  // namespace
}  // namespace butterfly::model
