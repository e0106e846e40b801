#include "runtime/nodes/range_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "cluster/testing/member_samples.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

// Plans can say it before anybody can run it: then the node says so, and nothing is computed with half a
// layer.
TEST(RangeLoader, APartOfALayerIsRefusedInWords) {
  cluster::Assignment work = cluster::testing::assignment(1);
  work.members.push_back({cluster::testing::node_id(3), "10.0.0.3:4711", {}});
  for (cluster::ShareRange& range : work.members[0].share.ranges) range = {0, 4, 8};
  for (cluster::ShareRange& range : work.members[1].share.ranges) range = {4, 8, 8};
  RangeLoader loader({});
  const std::atomic<bool> cancelled{false};
  for (const bool prepare : {true, false}) {
    try {
      if (prepare)
        loader.prepare(work, cancelled);
      else
        loader.load(work, cancelled);
      FAIL() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUnsupported);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("heads 0-4 of 8"));
    }
  }
}

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

}  // namespace
}  // namespace butterfly::runtime
