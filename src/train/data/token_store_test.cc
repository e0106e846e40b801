#include "train/data/token_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temp_dir.h"

namespace butterfly::train {
namespace {

TokenStore some() {
  TokenStore store;
  store.add({{5, 6, 7}, {false, true, true}});
  store.add({{}, {}});
  store.add({{8}, {}});
  store.set_notes("1 bad line");
  return store;
}

TEST(TokenStore, WhatIsWrittenIsRead) {
  const butterfly::testing::TempDir dir;
  some().write(dir / "a" / "b.tokens");
  const auto read = TokenStore::open(dir / "a" / "b.tokens");
  ASSERT_NE(read, nullptr);
  ASSERT_EQ(read->size(), 3u);
  EXPECT_EQ(read->token_count(), 4u);
  EXPECT_EQ(read->notes(), "1 bad line");
  EXPECT_EQ(read->document(0).ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(read->document(0).learned, (std::vector<bool>{false, true, true}));
  EXPECT_TRUE(read->document(1).ids.empty());
  EXPECT_EQ(read->document(2).learned, (std::vector<bool>{true}));
}

// Whatever is wrong with it, it is as if it were not there: one byte less, one more, or any other byte.
TEST(TokenStore, DamagedFilesAreNotRead) {
  const butterfly::testing::TempDir dir;
  const auto path = dir / "a.tokens";
  EXPECT_EQ(TokenStore::open(path), nullptr);
  some().write(path);
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto opens = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return TokenStore::open(path) != nullptr;
  };
  EXPECT_TRUE(opens(good));
  EXPECT_FALSE(opens(""));
  EXPECT_FALSE(opens(good.substr(0, good.size() - 1)));
  EXPECT_FALSE(opens(good + "x"));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(opens(bad)) << "byte " << i;
  }
}

}  // namespace
}  // namespace butterfly::train
