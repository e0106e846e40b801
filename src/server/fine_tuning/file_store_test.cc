// Files are kept per key, within bounds, over restarts.
#include "server/fine_tuning/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/file_text.h"
#include "base/testing/temp_dir.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

template <typename Call>
int status_of(const Call& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 0;
}

struct FileStoreTest : ::testing::Test {
  FileStoreOptions options(uint64_t bytes = 100, size_t files = 3) {
    return {.folder = dir / "files", .owner_bytes_max = bytes, .owner_files_max = files};
  }
  butterfly::testing::TempDir dir;
};

TEST_F(FileStoreTest, KeysDoNotSeeEachOther) {
  FileStore store(options());
  const StoredFile mine = store.add(1, "../../x/a\nb.jsonl", "fine-tune", "{}\n");
  EXPECT_EQ(mine.filename, "ab.jsonl") << "only a name, never a path";
  EXPECT_EQ(mine.path.parent_path().parent_path(), dir / "files");
  EXPECT_EQ(read_text_file(mine.path), "{}\n");
  EXPECT_EQ(store.add(2, "t.csv", "fine-tune", "text\nx\n").path.extension(), ".csv");
  EXPECT_EQ(store.list(1).size(), 1u);
  EXPECT_EQ(status_of([&] { store.find(2, mine.id); }), 404);
  EXPECT_EQ(status_of([&] { store.remove(2, mine.id); }), 404);
  EXPECT_EQ(status_of([&] { store.find(1, "../" + mine.id); }), 404);
  EXPECT_EQ(store.find(1, mine.id).bytes, 3u);
  store.remove(1, mine.id);
  EXPECT_EQ(status_of([&] { store.find(1, mine.id); }), 404);
  EXPECT_FALSE(std::filesystem::exists(mine.path));
}

TEST_F(FileStoreTest, HasBoundsForEachKey) {
  FileStore store(options());
  store.add(1, "a", "fine-tune", std::string(90, 'x'));
  EXPECT_EQ(status_of([&] { store.add(1, "b", "fine-tune", std::string(11, 'x')); }), 413);
  store.add(2, "b", "fine-tune", std::string(100, 'x'));
  store.add(1, "b", "fine-tune", "x");
  store.add(1, "c", "fine-tune", "x");
  EXPECT_EQ(status_of([&] { store.add(1, "d", "fine-tune", "x"); }), 413) << "four files";
}

TEST_F(FileStoreTest, OutlivesTheProcessAndPassesOverDamage) {
  std::string good, cut;
  {
    FileStore store(options());
    good = store.add(1, "a.jsonl", "fine-tune", "aaaa").id;
    cut = store.add(1, "b.jsonl", "fine-tune", "bbbb").id;
    std::ofstream(store.find(1, cut).path) << "b";
    std::ofstream(store.find(1, good).path.parent_path() / "file-x.json") << "{nonsense";
  }
  FileStore store(options());
  ASSERT_EQ(store.list(1).size(), 1u);
  EXPECT_EQ(store.list(1)[0].id, good);
  EXPECT_EQ(store.list(1)[0].filename, "a.jsonl");
}

}  // namespace
}  // namespace butterfly::server
