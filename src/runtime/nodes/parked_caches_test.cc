#include "runtime/nodes/parked_caches.h"

#include <gtest/gtest.h>

#include <thread>

#include "cluster/transport/inproc.h"

namespace butterfly::runtime {
namespace {

const model::CacheShape kShape{
    std::vector<model::LayerState>(6, {.kind = model::StateKind::kFull, .kv_heads = 1, .head_dim = 32}),
    DType::kF16};
const Lineage kName = lineage_after(kNoText, 7);
const std::vector<PageClaim> kClaims = {{1, 1, kName}};

std::shared_ptr<StageCache> cache_of(size_t begin, size_t end, bool written) {
  auto cache = std::make_shared<StageCache>(
      kShape, StageCacheOptions{.room = {.pages = {4, 0, 0}, .window = 0, .sequences = 1}, .dim = 4});
  cache->extend_to(begin, end);
  if (!written) return cache;
  cache->name(1, 0, kName);
  for (size_t layer = begin; layer < end; ++layer)
    cache->memory().layer_page(layer, model::PageKind::kFull, 1)[0] = static_cast<std::byte>(layer);
  cache->wrote(1, 0, begin, end);
  return cache;
}

struct ParkedCachesTest : ::testing::Test {
  // What a node that got these layers of job 3 has of them in the end.
  size_t fetched(size_t begin, size_t end, bool says_done = true, const Sha256& model = kModel) {
    auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
    std::thread server([&, link = there.get()] {
      cluster::Hello hello;
      hello.job = 3;
      parked.serve(*link, hello);
    });
    const auto cache = cache_of(begin, end, false);
    PagesCame came;
    const Deadline deadline(SystemClock::instance(), std::chrono::seconds(10));
    EXPECT_TRUE(receive_pages(*here, 1, {model, begin, end}, kClaims, *cache, deadline, came).ok());
    if (says_done) {
      EXPECT_TRUE(send_done(*here, 1, {model, begin, end}, std::chrono::seconds(1)).ok());
    }
    here->close();
    server.join();
    size_t layers = 0;
    for (size_t layer = begin; layer < end; ++layer)
      layers +=
          cache->has(kClaims[0], layer) &&
          cache->memory().layer_page(layer, model::PageKind::kFull, 1)[0] == static_cast<std::byte>(layer);
    return layers;
  }
  inline static const Sha256 kModel = cache_identity({.id = "id", .name = "model", .settings = "settings"});
  ManualClock clock;
  ParkedCaches parked{clock};
};

TEST_F(ParkedCachesTest, GivesWhatLeftUntilAllHaveTheirs) {
  EXPECT_TRUE(parked.empty());
  parked.put(3, kModel, cache_of(1, 5, true)->part(2, 5));
  EXPECT_FALSE(parked.empty());
  EXPECT_GT(parked.bytes(3), 0u);
  EXPECT_EQ(parked.bytes(4), 0u);
  EXPECT_EQ(fetched(2, 4, false), 2u);
  EXPECT_EQ(fetched(2, 4), 2u) << "again: nobody had said that it was done";
  EXPECT_FALSE(parked.empty());
  EXPECT_EQ(fetched(4, 5), 1u);
  EXPECT_TRUE(parked.empty()) << "all layers are elsewhere";
}

TEST_F(ParkedCachesTest, WhereNothingIsExpectedNothingComesAtOnce) {
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(fetched(2, 5), 0u);
}

TEST_F(ParkedCachesTest, AnotherModelOrOtherSettingsGetNothing) {
  parked.put(3, kModel, cache_of(2, 5, true));
  EXPECT_EQ(fetched(2, 5, true, cache_identity({.id = "id", .name = "model", .settings = "others"})), 0u);
  EXPECT_FALSE(parked.empty());
}

TEST_F(ParkedCachesTest, GoesWhenItIsOldOrDropped) {
  parked.put(3, kModel, cache_of(2, 5, true));
  clock.advance(ParkedCaches::kParkedMax - std::chrono::seconds(1));
  EXPECT_FALSE(parked.empty());
  clock.advance(std::chrono::seconds(1));
  EXPECT_TRUE(parked.empty());
  parked.put(3, kModel, cache_of(2, 5, true));
  parked.put(4, kModel, cache_of(2, 5, true));
  parked.drop(3);
  EXPECT_EQ(parked.bytes(3), 0u);
  EXPECT_FALSE(parked.empty());
  for (size_t i = 0; i < 2 * ParkedCaches::kPartsMax; ++i) parked.put(5, kModel, cache_of(2, 5, true));
  EXPECT_EQ(parked.bytes(4), 0u) << "bounded: the oldest went";
}

// A node that is about to end waits for what is still to be parked.
TEST_F(ParkedCachesTest, WhatIsExpectedIsWaitedFor) {
  parked.expect(3);
  EXPECT_FALSE(parked.empty());
  std::thread later([&] {
    parked.put(3, kModel, cache_of(2, 5, true));
    parked.settled(3);
  });
  EXPECT_EQ(fetched(2, 5), 3u) << "asked before it was there, or after";
  later.join();
  EXPECT_TRUE(parked.empty());
}

}  // namespace
}  // namespace butterfly::runtime
