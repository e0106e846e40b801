#include "cli/models/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class StoreTest : public ::testing::Test {
 protected:
  template <typename Fn>
  static std::string error_of(Fn&& fn) {
    try {
      fn();
      return "no Error";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const StoredModel& stored : store_.list()) names.push_back(stored.name);
    return names;
  }
  butterfly::testing::TempDir dir_;
  ModelStore store_{dir_ / "own", {dir_ / "shared", dir_ / "absent"}};
};

TEST_F(StoreTest, ListsFilesFoldersAndParts) {
  dir_.write("own/b.gguf", "12345");
  dir_.write("own/notes.txt", "x");
  dir_.write("own/folder/config.json", "{}");
  dir_.write("own/folder/model.safetensors", "123");
  dir_.write("own/empty/readme", "");
  dir_.write("own/big-00001-of-00002.gguf", "12");
  dir_.write("own/big-00002-of-00002.gguf", "345");
  dir_.write("own/tokenizer.bin", "x");
  dir_.write("shared/a.bin", "1");
  dir_.write("shared/b.gguf", "hidden by the own one");
  EXPECT_THAT(names(), ElementsAre("a", "b", "big", "folder"));
  const auto list = store_.list();
  EXPECT_TRUE(list[0].shared);
  EXPECT_EQ(list[1].bytes, 5u);
  EXPECT_FALSE(list[1].shared);
  EXPECT_EQ(list[2].bytes, 5u);
  EXPECT_EQ(list[3].bytes, 5u);
  EXPECT_EQ(store_.find("big"), dir_ / "own/big-00001-of-00002.gguf");
  EXPECT_EQ(store_.find("a"), dir_ / "shared/a.bin");
  EXPECT_EQ(store_.find("a.bin"), dir_ / "shared/a.bin");
}

TEST_F(StoreTest, ErrorsNameWhatIsNear) {
  EXPECT_THAT(error_of([&] { store_.find("x"); }),
              HasSubstr("x: no such file, and no model of that name among the 0"));
  dir_.write("own/tinyllama-q4.gguf", "1");
  dir_.write("own/other.gguf", "1");
  EXPECT_THAT(error_of([&] { store_.find("tinylama-q4"); }), HasSubstr("did you mean 'tinyllama-q4'?"));
  EXPECT_THAT(error_of([&] { store_.find("tiny"); }), HasSubstr("did you mean 'tinyllama-q4'?"));
}

TEST_F(StoreTest, ImportsAndRemoves) {
  const fs::path file = dir_.write("in/m.gguf", "abc");
  EXPECT_EQ(store_.import(file, ""), "m");
  EXPECT_EQ(store_.import(file, "other"), "other");
  EXPECT_THAT(names(), ElementsAre("m", "other"));
  EXPECT_THAT(error_of([&] { store_.import(file, "m"); }), HasSubstr("the store has a model of that name"));
  EXPECT_THAT(error_of([&] { store_.import(file, "a/b"); }), HasSubstr("cannot be the name of a model"));
  EXPECT_THAT(error_of([&] { store_.import(dir_ / "none", ""); }), HasSubstr("no such file"));
  store_.remove("m");
  EXPECT_THAT(names(), ElementsAre("other"));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(StoreTest, ImportsFoldersAndParts) {
  dir_.write("in/hf/config.json", "{}");
  dir_.write("in/hf/model.safetensors", "123");
  const fs::path part = dir_.write("in/p-00001-of-00002.gguf", "1");
  dir_.write("in/p-00002-of-00002.gguf", "2");
  EXPECT_EQ(store_.import(dir_ / "in/hf/", ""), "hf");
  EXPECT_EQ(store_.import(part, "q"), "q");
  EXPECT_TRUE(fs::exists(dir_ / "own/hf/model.safetensors"));
  EXPECT_TRUE(fs::exists(dir_ / "own/q-00002-of-00002.gguf"));
  store_.remove("q");
  store_.remove("hf");
  EXPECT_TRUE(names().empty());
  EXPECT_FALSE(fs::exists(dir_ / "own/q-00002-of-00002.gguf"));
}

TEST_F(StoreTest, SharedFoldersAreOnlyRead) {
  dir_.write("shared/a.gguf", "1");
  EXPECT_THAT(error_of([&] { store_.remove("a"); }), HasSubstr("lies in a shared folder"));
  EXPECT_TRUE(fs::exists(dir_ / "shared/a.gguf"));
}

}  // namespace
}  // namespace butterfly::cli
