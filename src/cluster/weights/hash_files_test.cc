#include "cluster/weights/hash_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "cluster/weights/testing/chunked_files.h"

namespace butterfly::cluster {
namespace {

using testing::ChunkedFiles;
using testing::kTestChunk;

// As if it had been written long ago: fresh files are not remembered.
void make_old(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

struct HashFilesTest : ::testing::Test {
  ChunkedFiles files;
  std::filesystem::path cache = files.dir / "cache";

  HashCounts hash(Digest* id = nullptr, size_t threads = 2) {
    ThreadPool pool(threads);
    HashCounts counts;
    const Manifest manifest =
        hash_files({{files.paths[0], 1500}, {files.paths[1], 300}}, cache, pool, &counts, kTestChunk);
    if (id != nullptr) *id = manifest.id();
    return counts;
  }
};

TEST_F(HashFilesTest, AnUnchangedFileIsNotReadAgain) {
  for (const auto& path : files.paths) make_old(path);
  Digest first, second;
  EXPECT_EQ(hash(&first).hashed_bytes, files.manifest.total_bytes());
  const HashCounts again = hash(&second);
  EXPECT_EQ(again.hashed_bytes, 0u);
  EXPECT_EQ(again.cached_bytes, files.manifest.total_bytes());
  EXPECT_EQ(first, files.manifest.id());
  EXPECT_EQ(second, first);
}

TEST_F(HashFilesTest, AFileThatWasJustWrittenIsReadAgain) {
  hash();
  EXPECT_EQ(hash().cached_bytes, 0u);
}

TEST_F(HashFilesTest, AChangedFileHasAnotherId) {
  for (const auto& path : files.paths) make_old(path);
  hash();
  {
    std::fstream file(files.paths[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('x');
  }
  make_old(files.paths[0]);  // even with the time of before: the inode's own time has moved on
  Digest id;
  const HashCounts counts = hash(&id);
  EXPECT_EQ(counts.hashed_bytes, files.contents[0].size());
  EXPECT_NE(id, files.manifest.id());
}

TEST_F(HashFilesTest, TornCacheFilesAreIgnored) {
  for (const auto& path : files.paths) make_old(path);
  hash();
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    std::filesystem::resize_file(entry.path(), 40);
  EXPECT_EQ(hash().cached_bytes, 0u);
}

TEST_F(HashFilesTest, FindsFilesWithTheSameBytes) {
  const auto folder = files.paths[0].parent_path();
  EXPECT_EQ(find_whole_files(files.manifest, folder, cache, files.pool), files.paths);
  EXPECT_EQ(find_whole_files(files.manifest, files.dir.path(), cache, files.pool), std::nullopt);
  files.dir.write("model/b.json", testing::random_text(300, 3));  // same size
  EXPECT_EQ(find_whole_files(files.manifest, folder, cache, files.pool), std::nullopt);
}

TEST_F(HashFilesTest, MissingFilesAreAnError) {
  ThreadPool pool(1);
  EXPECT_THROW(hash_files({{files.dir / "none", 0}}, cache, pool), Error);
  EXPECT_THROW(hash_files({{files.paths[1], 301}}, cache, pool), Error) << "a head larger than the file";
}

}  // namespace
}  // namespace butterfly::cluster
