#include "runtime/nodes/range_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "cluster/testing/member_samples.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

// The boundary moves: what stays is not packed a second time, and nothing else stays.
TEST(RangeLoader, MatricesOfLayersThatStayAreNotReadAgain) {
  butterfly::testing::TempDir folder;
  model::RandomModelOptions shape = testing::small_options("llama", DType::kQ8_0);
  shape.block_count = 4;
  write_random_model(folder / "model.gguf", shape);
  ThreadPool pool(1);
  Compute compute(1);
  const auto files = files_to_share(model::open_model(folder / "model.gguf"));
  const cluster::Manifest manifest = cluster::hash_files(files, {}, pool, nullptr, 8192);
  const auto library = std::make_shared<cluster::WeightLibrary>();
  library->add(
      std::make_shared<cluster::WholeFiles>(manifest, std::vector<std::filesystem::path>{files[0].path}));
  RangeLoaderOptions options;
  options.library = library;
  options.compute = &compute;
  RangeLoader loader(options);
  const std::atomic<bool> cancelled{false};
  StageSettings settings;
  settings.context = settings.positions = 64;
  cluster::Assignment work;
  work.members.push_back({cluster::testing::node_id(3), "10.0.0.3:4711", {}});
  work.model = {.id = cluster::digest_to_hex(manifest.id()), .name = "random", .settings = settings.text()};
  work.pieces = 6;
  const auto packed = [&](uint32_t begin, uint32_t end) {
    work.begin = begin;
    work.end = end;
    return loader.load(work, cancelled)->packed_bytes;
  };
  const uint64_t two = packed(1, 3);  // blocks 0 and 1
  EXPECT_GT(two, 0u);
  EXPECT_EQ(packed(1, 4), two / 2) << "block 2 came";
  EXPECT_EQ(packed(2, 4), 0u) << "block 0 went";
  EXPECT_EQ(packed(1, 4), two / 2) << "and came back";
  EXPECT_EQ(packed(4, 5), two / 2) << "nothing in common";
  loader.free();
  EXPECT_EQ(packed(4, 5), two / 2);
}

// A member of a stage loads its part of each layer, and anew when anybody's part changes: exchanges depend on
// all of them.
TEST(RangeLoader, AMemberLoadsItsPartOfEachLayer) {
  butterfly::testing::TempDir folder;
  model::RandomModelOptions shape = testing::small_options("llama", DType::kQ8_0);
  shape.embedding_length = shape.feed_forward_length = 512;
  shape.head_length = 64;
  write_random_model(folder / "model.gguf", shape);
  ThreadPool pool(1);
  Compute compute(1);
  const auto files = files_to_share(model::open_model(folder / "model.gguf"));
  const cluster::Manifest manifest = cluster::hash_files(files, {}, pool, nullptr, 8192);
  const auto library = std::make_shared<cluster::WeightLibrary>();
  library->add(
      std::make_shared<cluster::WholeFiles>(manifest, std::vector<std::filesystem::path>{files[0].path}));
  RangeLoaderOptions options;
  options.library = library;
  options.compute = &compute;
  RangeLoader loader(options);
  const std::atomic<bool> cancelled{false};
  StageSettings settings;
  settings.context = settings.positions = 64;
  cluster::Assignment work;
  work.model = {.id = cluster::digest_to_hex(manifest.id()), .name = "random", .settings = settings.text()};
  work.pieces = 4;
  work.begin = 1;
  work.end = 3;
  const auto loaded = [&](const std::vector<uint32_t>& cuts) {
    work.members.clear();
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      auto& member = work.members.emplace_back();
      member.node = cluster::testing::node_id(static_cast<int>(3 + i));
      if (cuts.size() > 2)
        for (cluster::ShareRange& range : member.share.ranges) range = {cuts[i], cuts[i + 1], 8};
    }
    auto part = loader.load(work, cancelled);
    EXPECT_GT(loader.progress().done, 0u);
    EXPECT_EQ(loader.progress().done, loader.progress().total) << cuts.size() << " cuts";
    return part;
  };
  // Whoever holds a part keeps the loader waiting for its memory: nobody does here.
  const uint64_t all = loaded({0, 8})->resident_bytes;
  EXPECT_FALSE(loaded({0, 8})->group);
  EXPECT_LT(loaded({0, 4, 8})->resident_bytes, all * 52 / 100);
  EXPECT_EQ(loaded({0, 4, 8})->group.members.size(), 2u);
  EXPECT_EQ(loaded({0, 4, 8}), loaded({0, 4, 8})) << "the same part again";
  EXPECT_EQ(loaded({0, 4, 6, 8})->group.members.size(), 3u) << "the others' parts changed";
  EXPECT_EQ(loaded({0, 4, 6, 8})->packed_bytes, 0u) << "its own is the same: nothing is packed again";
}

}  // namespace
}  // namespace butterfly::runtime
