#include "runtime/engine/prefix_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;
using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::RandomModel;

constexpr PrefixStore::Sizes kSizes = {1000, 0, 500};
constexpr uint32_t kFull = 1, kWithState = 5;

std::vector<int32_t> tokens_of(int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 32; ++i) tokens.push_back(seed + i);
  return tokens;
}

PrefixStore::Page page_of(char fill, uint32_t parts = kFull) {
  return {parts, std::vector<std::byte>((parts & 4) != 0 ? 1500 : 1000, static_cast<std::byte>(fill))};
}

class PrefixStoreTest : public ::testing::Test {
 protected:
  PrefixStore open(uint64_t bytes_max = 1 << 20, const std::string& identity = "one") {
    return PrefixStore({folder.path() / "kept", bytes_max, identity}, kSizes);
  }
  std::vector<fs::path> files() {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder.path() / "kept")) found.push_back(entry.path());
    return found;
  }
  butterfly::testing::TempDir folder;
  const std::vector<int32_t> text = tokens_of(7);
};

TEST_F(PrefixStoreTest, WhatWasSavedIsThereForTheNextProcess) {
  PrefixStore::Name name;
  {
    PrefixStore store = open();
    name = PrefixStore::next(store.root(3), text);
    ASSERT_TRUE(store.save(name, text, page_of('a'), store.now()));
  }
  PrefixStore store = open();
  const auto page = store.load(name, text);
  ASSERT_TRUE(page.ok()) << page.status().text();
  EXPECT_EQ(page->bytes, page_of('a').bytes);
  EXPECT_EQ(store.count(3, text, 32, 9), 1u);
  EXPECT_EQ(store.count(4, text, 32, 9), 0u) << "another owner's";
  EXPECT_EQ(open(1 << 20, "two").count(3, text, 32, 9), 0u) << "of another model";
  EXPECT_EQ(store.usable(store.root(3), text, 32, 9, 0), 0u) << "no state behind it";
  ASSERT_TRUE(store.save(name, text, page_of('a', kWithState), store.now()));
  EXPECT_EQ(store.usable(store.root(3), text, 32, 9, 0), 1u);
  EXPECT_EQ(files().size(), 1u);
  const auto both = open().load(name, text);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->part(graph::PageKind::kState, kSizes).size(), 500u);
}

// Models all of whose layers see a window have pages without bytes besides.
TEST_F(PrefixStoreTest, TextsGoOnWhereAllOfTheirWindowIsKept) {
  constexpr size_t kPages = 6;
  constexpr uint32_t kWindow = 2;
  std::vector<int32_t> long_text;
  for (int32_t i = 0; i < static_cast<int32_t>(kPages * 32); ++i) long_text.push_back(i);
  PrefixStore store({folder.path() / "kept", 1 << 20, "one"}, {0, 1000, 0});
  PrefixStore::Name name = store.root(3);
  for (size_t page = 0; page < kPages; ++page) {
    const auto tokens = std::span(long_text).subspan(page * 32, 32);
    name = PrefixStore::next(name, tokens);
    const uint32_t parts = page == 2 ? kFull : kFull | kWindow;  // the third has lost its own
    const PrefixStore::Page made{parts, std::vector<std::byte>(page == 2 ? 0 : 1000, std::byte{7})};
    ASSERT_TRUE(store.save(name, tokens, made, store.now()));
    const auto back = store.load(name, tokens);
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(back->bytes, made.bytes);
  }
  EXPECT_EQ(store.count(3, long_text, 32, 9), kPages);
  EXPECT_EQ(store.usable(store.root(3), long_text, 32, 9, 16), kPages);
  EXPECT_EQ(store.usable(store.root(3), long_text, 32, 9, 97), kPages) << "row 192 sees positions 96 to 192";
  EXPECT_EQ(store.usable(store.root(3), long_text, 32, 9, 98), 2u) << "95 is in the page that has none";
  EXPECT_EQ(store.usable(store.root(3), long_text, 32, 3, 16), 2u) << "not behind the third";
}

TEST_F(PrefixStoreTest, FilesThatAreNotWhatTheySayAreRefused) {
  const auto damage = [&](const char* how, const std::function<void(const fs::path&)>& change) {
    PrefixStore::Name name;
    {
      PrefixStore store = open();
      name = PrefixStore::next(store.root(3), text);
      ASSERT_TRUE(store.save(name, text, page_of('a'), store.now()));
    }
    const fs::path file = files().at(0);
    change(file);
    PrefixStore store = open();
    const auto page = store.load(name, text);
    EXPECT_FALSE(page.ok()) << how;
    EXPECT_EQ(store.parts(name), 0u) << how;
    for (const fs::path& left : files()) fs::remove_all(left);
  };
  damage("cut", [](const fs::path& file) { fs::resize_file(file, 700); });
  damage("empty", [](const fs::path& file) { fs::resize_file(file, 0); });
  damage("longer", [](const fs::path& file) { fs::resize_file(file, uint64_t{1} << 40); });
  for (const std::streamoff at : {0, 9, 20, 60, 100, 500, 1200})
    damage("a byte changed", [&](const fs::path& file) {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(at);
      const int was = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(was ^ 1));
    });
  damage("a link", [&](const fs::path& file) {
    fs::rename(file, folder.path() / "elsewhere");
    fs::create_symlink(folder.path() / "elsewhere", file);
  });
  damage("a pipe", [](const fs::path& file) {
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  });
  damage("a folder", [](const fs::path& file) {
    fs::remove(file);
    fs::create_directory(file);
  });
  damage("parts that it has not", [](const fs::path& file) {
    std::string name = file.string();
    name[name.size() - 6] = '5';
    fs::rename(file, name);
  });
  damage("parts that the model has not", [](const fs::path& file) {
    std::string name = file.string();
    name[name.size() - 6] = '3';
    fs::rename(file, name);
  });
  damage("another page under its name", [&](const fs::path& file) {
    {
      PrefixStore store = open();
      const auto other = tokens_of(99);
      ASSERT_TRUE(store.save(PrefixStore::next(store.root(3), other), other, page_of('b'), store.now()));
    }
    for (const fs::path& found : files())
      if (found != file) fs::rename(found, file);
  });
}

TEST_F(PrefixStoreTest, IsBoundedAndGivesUpTheLongestUnused) {
  constexpr uint64_t kBytesMax = 10 * 1400;
  {
    PrefixStore store = open(kBytesMax);
    for (int32_t i = 0; i < 30; ++i) {
      const auto one = tokens_of(i);
      ASSERT_TRUE(store.save(PrefixStore::next(store.root(0), one), one, page_of('x'), store.now()));
      ASSERT_LE(store.bytes(), kBytesMax);
    }
    EXPECT_EQ(store.count(0, tokens_of(29), 32, 1), 1u);
    EXPECT_EQ(store.count(0, tokens_of(3), 32, 1), 0u);
  }
  uint64_t bytes = 0;
  for (const fs::path& file : files()) bytes += fs::file_size(file);
  EXPECT_LE(bytes, kBytesMax);
  EXPECT_GT(bytes, kBytesMax / 2);
  // Another process with less to give trims what it finds, oldest first.
  PrefixStore store = open(4 * 1400);
  EXPECT_LE(store.bytes(), 4u * 1400);
  EXPECT_EQ(store.count(0, tokens_of(29), 32, 1), 1u);
  const auto big = tokens_of(1000);
  const uint64_t since = store.now();
  size_t taken = 0;
  for (int32_t i = 0; i < 9; ++i) {
    const auto one = tokens_of(2000 + i);
    taken += store.save(PrefixStore::next(store.root(0), one), one, page_of('x'), since).ok();
  }
  EXPECT_GE(taken, 2u);
  EXPECT_LE(taken, 4u) << "what is as new is not given up";
}

TEST_F(PrefixStoreTest, AFolderThatOthersMayWriteIsRefused) {
  fs::create_directory(folder.path() / "kept");
  ::chmod((folder.path() / "kept").c_str(), 0777);
  EXPECT_THROW(open(), Error);
}

// ---- With an engine: the same bits, fewer of them computed ----

struct Kind {
  std::string_view architecture;
  DType cache;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.architecture << " " << dtype_name(kind.cache);
}

class PrefixRestart : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Engine> engine(bool with_store = true) {
    LocalEngineOptions options;
    // Then windows have 11 pages, and a text has 15 blocks.
    options.engine.scheduler.running_max = 2;
    options.engine.scheduler.rows_max = options.layers.rows_max = 64;
    options.layers.kv_type = GetParam().cache;
    options.layers.positions = 4096;
    if (with_store)
      options.engine.prefix_store = [&](const CachePages& pages) {
        PrefixStore::Sizes sizes{};
        for (size_t kind = 0; kind < sizes.size(); ++kind)
          sizes[kind] = pages.size(static_cast<graph::PageKind>(kind));
        return store = std::make_shared<PrefixStore>(
                   PrefixStoreOptions{folder.path() / "kept", bytes_max, "model"}, sizes);
      };
    return make_local_engine(*model.loaded().model, model.loaded().compute, options);
  }

  // The prompt of a second turn goes on where the first one's text ended.
  EngineRequest turn(size_t length, uint64_t client = 1) {
    EngineRequest request;
    for (size_t i = 0; i < length; ++i)
      request.prompt.push_back(static_cast<int32_t>((i * 7 + i / 50) % 300));
    request.tokens_max = 12;
    request.client = client;
    request.ignore_eos = true;
    request.logprobs = true;
    return request;
  }

  struct Ended {
    Bits bits;
    FinishEvent finish;
  };
  Ended ask(Engine& on, EngineRequest request) {
    auto sink = std::make_shared<Collector>();
    EXPECT_TRUE(on.submit(std::move(request), sink).ok());
    const FinishEvent finish = sink->wait();
    EXPECT_EQ(finish.reason, FinishReason::kLength) << finish.status.text();
    return {bits_of(*sink), finish};
  }

  butterfly::testing::TempDir folder;
  uint64_t bytes_max = uint64_t{1} << 30;
  std::shared_ptr<PrefixStore> store;
  RandomModel model{DType::kF32, 2, 7, GetParam().architecture};
};

TEST_P(PrefixRestart, ConversationsGoOnWithTheSameBits) {
  const Ended first = ask(*engine(false), turn(350)), second = ask(*engine(false), turn(480));
  EXPECT_EQ(ask(*engine(), turn(350)).bits, first.bits);  // and the engine ends
  {
    const auto again = engine();
    const Ended got = ask(*again, turn(480));
    EXPECT_EQ(got.bits, second.bits);
    EXPECT_GE(got.finish.usage.cached_tokens, 320u);
    EXPECT_GE(again->stats().restored_tokens, 320u);
  }
  {  // From two processes by now: more pages of windows than there are in memory.
    const auto third = engine();
    const Ended got = ask(*third, turn(498));
    EXPECT_EQ(got.bits, ask(*engine(false), turn(498)).bits);
    EXPECT_GE(got.finish.usage.cached_tokens, 448u);
    EXPECT_EQ(ask(*third, turn(480, 2)).finish.usage.cached_tokens, 0u) << "another client's";
  }
  // Many at once, of which some wait for pages and others do not.
  const auto crowd = engine();
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < 12; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(crowd->submit(turn(i % 3 == 0 ? 480 : 350, i % 2), sinks.back()).ok());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(bits_of(*sinks[i]), (i % 3 == 0 ? second : first).bits) << i;
  }
}

TEST_P(PrefixRestart, FilesThatAreBrokenCostTimeAndNoBits) {
  const Ended want = ask(*engine(false), turn(480));
  EXPECT_EQ(ask(*engine(), turn(350)).bits, ask(*engine(false), turn(350)).bits);
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "kept"))
    if (++count % 5 == 0) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(300);
      file.put('!');
    }
  ASSERT_GT(count, 9u);
  EXPECT_EQ(ask(*engine(), turn(480)).bits, want.bits);
}

TEST_P(PrefixRestart, WhoLeavesWhileItWaitsLeavesNothingBehind) {
  ask(*engine(), turn(350));
  const auto again = engine();
  for (size_t i = 0; i < 8; ++i) {
    auto sink = std::make_shared<Collector>();
    const auto id = again->submit(turn(480), sink);
    ASSERT_TRUE(id.ok());
    again->cancel(*id);
    sink->wait();
  }
  EXPECT_EQ(ask(*again, turn(480)).bits, ask(*engine(false), turn(480)).bits);
  EXPECT_EQ(again->stats().pages_used, 0u);
}

TEST_P(PrefixRestart, TheBoundHolds) {
  bytes_max = 1;
  ask(*engine(), turn(350));
  EXPECT_EQ(store->bytes(), 0u);
  EXPECT_EQ(ask(*engine(), turn(350)).finish.usage.cached_tokens, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PrefixRestart,
                         ::testing::Values(Kind{"llama", DType::kF16}, Kind{"llama", DType::kQ8_0},
                                           Kind{"gemma3", DType::kF16}, Kind{"qwen35", DType::kF16},
                                           Kind{"lfm2", DType::kF16}));

}  // namespace
}  // namespace butterfly::runtime
