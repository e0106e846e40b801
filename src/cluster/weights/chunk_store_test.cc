#include "cluster/weights/chunk_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "cluster/weights/testing/chunked_files.h"

namespace butterfly::cluster {
namespace {

using testing::ChunkedFiles;
using testing::kTestChunk;

struct ChunkStoreTest : ::testing::Test {
  ChunkedFiles files;
  std::filesystem::path root = files.dir / "store";

  std::shared_ptr<ChunkStore> open() {
    auto store = ChunkStore::open(root, files.manifest, files.pool);
    EXPECT_TRUE(store.ok()) << store.status().text();
    return *store;
  }
  std::span<const std::byte> chunk(size_t i) const {
    const Manifest::Place place = files.manifest.place(i);
    return std::as_bytes(std::span(files.contents[place.file])).subspan(place.offset, place.bytes);
  }
  std::vector<bool> here(const ChunkStore& store) const {
    std::vector<bool> set;
    for (size_t i = 0; i < files.manifest.chunk_count(); ++i) set.push_back(store.has(i));
    return set;
  }
};

TEST_F(ChunkStoreTest, KeepsWhatWasPutAndNothingElse) {
  ChunkSet expected = files.manifest.none();
  {
    const auto store = open();
    EXPECT_EQ(here(*store), expected);
    for (const size_t i : {0, 7, 20, 21}) {
      ASSERT_TRUE(store->put(i, chunk(i)).ok());
      expected[i] = true;
    }
    EXPECT_EQ(here(*store), expected);
  }
  const auto store = open();
  EXPECT_EQ(here(*store), expected);
  std::vector<std::byte> bytes(kTestChunk);
  ASSERT_TRUE(store->read(7, 0, bytes).ok());
  EXPECT_TRUE(std::ranges::equal(bytes, chunk(7)));
  EXPECT_EQ(std::filesystem::file_size(store->path(0)), files.contents[0].size())
      << "as large as the whole file";
}

// Reading a large model again takes minutes, at every change of plan.
TEST_F(ChunkStoreTest, WhatNobodyTouchedIsNotReadAgain) {
  {
    const auto store = open();
    for (const size_t i : {0, 7}) ASSERT_TRUE(store->put(i, chunk(i)).ok());
  }
  std::atomic<uint64_t> read{0};
  const auto open_counted = [&] {
    return ChunkStore::open(root, files.manifest, files.pool, [&](uint64_t bytes) { read += bytes; })
        .or_throw();
  };
  for (int i = 0; i < 3; ++i) open_counted();
  EXPECT_EQ(read, 0u);
  std::filesystem::last_write_time(root / digest_to_hex(files.manifest.id()) / files.manifest.files()[0].name,
                                   std::filesystem::file_time_type::clock::now());
  EXPECT_TRUE(open_counted()->has(7));
  EXPECT_EQ(read, 2 * kTestChunk) << "somebody did";
}

TEST_F(ChunkStoreTest, AWrongChunkIsNotWritten) {
  const auto store = open();
  const Status wrong = store->put(3, chunk(4));
  EXPECT_EQ(wrong.code(), Errc::kCorrupt);
  EXPECT_EQ(store->put(3, chunk(3).first(1000)).code(), Errc::kCorrupt);
  EXPECT_FALSE(store->has(3));
  std::vector<std::byte> bytes(kTestChunk);
  ASSERT_TRUE(store->read(3, 0, bytes).ok());
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) << "still a hole";
}

// A process that is killed leaves chunks without notes: they are as good as missing, the noted ones are
// right.
TEST_F(ChunkStoreTest, ChunksWithoutANoteAreFetchedAgain) {
  {
    const auto store = open();
    ASSERT_TRUE(store->put(1, chunk(1)).ok());
    ASSERT_TRUE(store->flush().ok());
    std::ofstream torn(store->path(0), std::ios::in | std::ios::out | std::ios::binary);
    torn.seekp(2 * kTestChunk);
    torn.write(files.contents[0].data() + 2 * kTestChunk, 500);
  }
  const auto store = open();
  EXPECT_TRUE(store->has(1));
  EXPECT_FALSE(store->has(2));
}

TEST_F(ChunkStoreTest, ChunksThatWereChangedOnDiskAreForgotten) {
  {
    const auto store = open();
    for (size_t i = 0; i < files.manifest.chunk_count(); ++i) ASSERT_TRUE(store->put(i, chunk(i)).ok());
  }
  {
    std::ofstream file(root / digest_to_hex(files.manifest.id()) / "a.gguf",
                       std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 * kTestChunk + 17);
    file.put(static_cast<char>(files.contents[0][5 * kTestChunk + 17] ^ 1));
  }
  ChunkSet expected = files.manifest.all();
  expected[5] = false;
  EXPECT_EQ(here(*open()), expected);
  EXPECT_EQ(here(*open()), expected) << "and it stays so";
}

TEST_F(ChunkStoreTest, FindsItsManifest) {
  EXPECT_FALSE(stored_manifest(root, files.manifest.id()).has_value());
  open();
  const auto stored = stored_manifest(root, files.manifest.id());
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->id(), files.manifest.id());
}

TEST_F(ChunkStoreTest, RoomIsMadeByRemovingUnusedStores) {
  const auto store = open();
  const Digest other = digest_of(std::as_bytes(std::span(files.contents[0])));
  ASSERT_TRUE(make_disk_room(root, 1, 0, other).ok());
  const auto free = std::filesystem::space(root).available;
  // In use: it stays, and the figures are told.
  const Status refused = make_disk_room(root, 1000, free + (uint64_t{1} << 40), other);
  EXPECT_EQ(refused.code(), Errc::kOutOfMemory);
  EXPECT_NE(refused.text().find("1000"), std::string::npos) << refused.text();
  EXPECT_TRUE(std::filesystem::exists(store->folder()));
}

TEST_F(ChunkStoreTest, AnUnusedStoreGoesWhenRoomIsNeeded) {
  const auto folder = open()->folder();  // closed again at once
  const Digest other = digest_of({});
  const auto free = std::filesystem::space(root).available;
  EXPECT_FALSE(make_disk_room(root, 1, free + (uint64_t{1} << 40), other).ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace butterfly::cluster
