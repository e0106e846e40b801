// What of a stage's cache survives a change of plan, and what must not.
#include "runtime/nodes/kept_cache.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kLayers = 6;
constexpr uint32_t kPieces = kLayers + 2, kPage = 3;

struct KeptCacheTest : ::testing::Test {
  KeptCacheTest() {
    model::RandomModelOptions options = testing::small_options("llama", DType::kQ8_0);
    options.block_count = kLayers;
    write_random_model(path, options);
    settings.context = settings.positions = 256;
    settings.sequences = 2;
    task.settings = settings.text();
  }
  // Pieces [begin, end) of the chain: embedding, blocks, head.
  cluster::Assignment work(uint32_t begin, uint32_t end) const {
    cluster::Assignment work;
    work.model = task;
    work.begin = begin;
    work.end = end;
    work.pieces = kPieces;
    return work;
  }
  // The cache as a stage of these pieces gets it, and uses it.
  std::shared_ptr<StageCache> stage(uint32_t begin, uint32_t end) {
    const model::LayerRange range = model::range_of_pieces(begin, end, kLayers);
    const testing::LoadedPart part(path, range, 1);
    auto cache = kept.for_stage(task, *part.model, settings);
    cache->extend_to(range.begin, range.end);
    return cache;
  }
  // Writes a position of a text.
  static void write(StageCache& cache) {
    cache.name(kPage, 0, kName);
    cache.wrote(kPage, 0, cache.begin(), cache.end());
  }
  // How many layers still have it.
  static size_t layers_with_it(StageCache& cache) {
    CacheReport report;
    cache.report(std::vector<PageClaim>{{kPage, 1, kName}}, report);
    size_t count = 0;
    for (const auto& layer : report.layers) count += layer[0];
    return count;
  }

  inline static const Lineage kName = lineage_after(kNoText, 7);
  butterfly::testing::TempDir folder;
  std::filesystem::path path = folder.path() / "model.gguf";
  StageSettings settings;
  cluster::ModelTask task{.id = "id", .name = "model", .settings = {}};
  std::atomic<bool> cancelled{false};
  KeptCache kept;
};

TEST_F(KeptCacheTest, LayersThatStayKeepWhatTheyHold) {
  auto before = stage(1, 5);  // layers 0 to 3
  write(*before);
  EXPECT_EQ(layers_with_it(*before), 4u);
  const uint64_t bytes = kept.bytes();
  EXPECT_GT(bytes, 0u);
  before.reset();
  kept.shrink(work(3, 7), cancelled);  // layers 2 to 5
  EXPECT_EQ(kept.bytes(), bytes / 2) << "the others are free before anything is loaded";
  const auto after = stage(3, 7);
  EXPECT_EQ(after->begin(), 2u);
  EXPECT_EQ(after->end(), 6u);
  EXPECT_EQ(layers_with_it(*after), 2u);
}

TEST_F(KeptCacheTest, AnotherModelOrOtherSettingsBeginEmpty) {
  write(*stage(1, 5));
  task.id = "another";
  kept.shrink(work(1, 5), cancelled);
  EXPECT_EQ(kept.bytes(), 0u);
  auto cache = stage(1, 5);
  EXPECT_EQ(layers_with_it(*cache), 0u);
  write(*cache);
  cache.reset();
  settings.kv_type = DType::kF32;
  task.settings = settings.text();
  kept.shrink(work(1, 5), cancelled);
  EXPECT_EQ(layers_with_it(*stage(1, 5)), 0u);
}

// A stage that was told to end and has not yet: what it still writes is no concern of the next one.
TEST_F(KeptCacheTest, WhatIsStillInUseIsLeftToWhoUsesIt) {
  auto before = stage(1, 5);
  write(*before);
  const StageCacheUse use(before);
  cancelled = true;  // nobody waits for it
  kept.shrink(work(1, 5), cancelled);
  EXPECT_EQ(kept.bytes(), 0u) << "it is not counted as free either";
  const auto after = stage(1, 5);
  EXPECT_NE(after, before);
  EXPECT_EQ(layers_with_it(*after), 0u);
  EXPECT_EQ(layers_with_it(*before), 4u);
}

// Without shrink(), the new stage could have fewer layers than the cache holds memory for.
TEST_F(KeptCacheTest, WhatReachesBeyondTheNewStageIsNotUsed) {
  write(*stage(1, 7));
  const auto after = stage(1, 5);
  EXPECT_EQ(after->end(), 4u);
  EXPECT_EQ(layers_with_it(*after), 0u);
}

TEST_F(KeptCacheTest, NothingIsKeptWhereThatIsNotWantedOrRowsAreLossy) {
  for (const auto& [kept_bytes, wire] : {std::pair<size_t, std::string>{0, "f32"}, {1 << 20, "f16"}}) {
    settings.kept_bytes = kept_bytes;
    settings.wire = wire;
    task.settings = settings.text();
    auto before = stage(1, 5);
    EXPECT_FALSE(before->keeps_contents()) << wire;
    before.reset();
    kept.shrink(work(1, 5), cancelled);
    EXPECT_EQ(kept.bytes(), 0u) << wire;
  }
}

TEST_F(KeptCacheTest, FreeMeansFree) {
  write(*stage(1, 5));
  EXPECT_GT(kept.bytes(), 0u);
  kept.free();
  EXPECT_EQ(kept.bytes(), 0u);
  EXPECT_EQ(layers_with_it(*stage(1, 5)), 0u);
}

}  // namespace
}  // namespace butterfly::runtime
