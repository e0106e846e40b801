// Pages come and go, bounded and never twice.
#include "model/cache/kv_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "base/error.h"

namespace butterfly::model {
namespace {

KvShape small_shape() { return {.layers = 2, .kv_heads = 3, .layout = {DType::kF16, 32}}; }

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
      for (const auto& pages : step.page_ids)
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
  EXPECT_EQ(kv_bytes_per_position(small_shape()), 2u * 3 * 2 * 32 * 2);
  KvShape bad = small_shape();
  bad.layout = {DType::kQ8_0, 40};
  EXPECT_THROW(KvCache(bad, 32, 1), Error);
}

}  // namespace
}  // namespace butterfly::model
