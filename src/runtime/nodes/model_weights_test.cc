#include "runtime/nodes/model_weights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "cluster/transport/inproc.h"
#include "cluster/weights/weight_server.h"
#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;

// A model on one "machine", and another machine that fetches parts of it.
struct ModelWeightsTest : ::testing::Test {
  butterfly::testing::TempDir dir;
  testing::RandomModel random{DType::kQ8_0, 1, 3, "llama"};
  ThreadPool pool{1};
  const model::ModelFile& file = random.loaded().model->file;
  cluster::WeightLibrary library;
  std::vector<std::thread> threads;
  WeightPlaces places{.cache = dir / "cache", .folders = {}, .disk_reserve_bytes = 0};

  ~ModelWeightsTest() override {
    for (std::thread& thread : threads) thread.join();
  }

  // Small chunks, so that parts differ.
  cluster::Manifest share(uint32_t chunk_bytes = 8192) {
    const auto files = files_to_share(file);
    const auto manifest = cluster::hash_files(files, {}, pool, nullptr, chunk_bytes);
    library.add(std::make_shared<cluster::WholeFiles>(manifest, std::vector<fs::path>{files[0].path}));
    return manifest;
  }
  std::vector<cluster::WeightPeer> peers() {
    return {{"owner", [this] {
               auto [here, there] = cluster::inproc_pair({"a", "a"}, {"b", "b"});
               threads.emplace_back([this, link = std::shared_ptr<cluster::Link>(std::move(there))] {
                 (void)cluster::serve_weights(*link, library);
               });
               return Result<std::unique_ptr<cluster::Link>>(std::move(here));
             }}};
  }
};

TEST_F(ModelWeightsTest, TheHeadOfAGgufIsItsMetadata) {
  const auto files = files_to_share(file);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].path, random.path());
  EXPECT_GT(files[0].head_bytes, 100u);
  EXPECT_LT(files[0].head_bytes, fs::file_size(random.path()) / 2);
}

// The point of it all: a file with holes gives the same layers as the whole one, and only its part was moved.
TEST_F(ModelWeightsTest, APartOfTheFileGivesTheSameLayers) {
  const cluster::Manifest manifest = share();
  const size_t layers = random.loaded().model->config.layers;
  uint64_t moved = 0;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {1, 2}, {2, layers + 2}}) {
    places.cache = dir / ("cache" + std::to_string(begin));
    const PreparedWeights prepared = prepare_weights(manifest.id(), begin, end, peers(), places, pool, {});
    EXPECT_FALSE(prepared.whole_file);
    EXPECT_LT(prepared.fetched.bytes, manifest.total_bytes());
    moved += prepared.fetched.bytes;
    const model::LayerRange range = model::range_of_pieces(begin, end, layers);
    const model::ModelFile part = model::open_model(model_path(*prepared.source));
    for (const std::string& name : model::tensors_of_range(range, layers, file)) {
      const Tensor whole = file.tensor(name), fetched = part.tensor(name);
      ASSERT_EQ(whole.bytes(), fetched.bytes());
      EXPECT_EQ(std::memcmp(whole.raw(), fetched.raw(), whole.bytes()), 0) << name;
    }
  }
  EXPECT_LT(moved, 2 * manifest.total_bytes()) << "heads and borders come more than once, the rest does not";
}

TEST_F(ModelWeightsTest, ASecondStartMovesNothing) {
  const cluster::Manifest manifest = share();
  const PreparedWeights first = prepare_weights(manifest.id(), 1, 3, peers(), places, pool, {});
  EXPECT_GT(first.fetched.bytes, 0u);
  const PreparedWeights second = prepare_weights(manifest.id(), 1, 3, {}, places, pool, {});
  EXPECT_EQ(second.fetched.bytes, 0u);
  const PreparedWeights more = prepare_weights(manifest.id(), 1, 4, peers(), places, pool, {});
  EXPECT_LT(more.fetched.bytes, first.fetched.bytes + manifest.total_bytes() / 2) << "only what is new";
}

TEST_F(ModelWeightsTest, AFileWithTheSameHashIsUsedAsItIs) {
  const cluster::Manifest manifest = share();
  fs::create_directories(dir / "models");
  fs::copy_file(random.path(), dir / "models" / random.path().filename());
  places.folders = {dir / "none", dir / "models"};
  const PreparedWeights prepared = prepare_weights(manifest.id(), 0, 3, peers(), places, pool, {});
  EXPECT_TRUE(prepared.whole_file);
  EXPECT_EQ(prepared.fetched.bytes, 0u);
  EXPECT_EQ(model_path(*prepared.source), dir / "models" / random.path().filename());
}

TEST_F(ModelWeightsTest, AFileThatOnlyLooksTheSameIsNot) {
  const cluster::Manifest manifest = share();
  fs::create_directories(dir / "models");
  const fs::path copy = dir / "models" / random.path().filename();
  fs::copy_file(random.path(), copy);
  {
    std::fstream out(copy, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-5, std::ios::end);
    out.put('?');
  }
  places.folders = {dir / "models"};
  EXPECT_FALSE(prepare_weights(manifest.id(), 0, 3, peers(), places, pool, {}).whole_file);
}

TEST_F(ModelWeightsTest, NobodyToAskIsAnError) {
  const cluster::Manifest manifest = share();
  try {
    prepare_weights(manifest.id(), 0, 3, {}, places, pool, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kNotFound) << error.what();
  }
}

TEST_F(ModelWeightsTest, AFullDiskIsSaidInFigures) {
  const cluster::Manifest manifest = share();
  places.disk_reserve_bytes = uint64_t{1} << 60;
  try {
    prepare_weights(manifest.id(), 0, 3, peers(), places, pool, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kOutOfMemory) << error.what();
  }
}

}  // namespace
}  // namespace butterfly::runtime
