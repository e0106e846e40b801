#include "cluster/weights/manifest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "cluster/weights/testing/chunked_files.h"

namespace butterfly::cluster {
namespace {

using testing::ChunkedFiles;
using testing::kTestChunk;

TEST(Sha256Test, KnownDigests) {
  EXPECT_EQ(digest_to_hex(digest_of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  const Digest digest = digest_of(std::as_bytes(std::span(abc)));
  EXPECT_EQ(digest_to_hex(digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_from_hex(digest_to_hex(digest)), digest);
  EXPECT_EQ(digest_from_hex("ba78"), std::nullopt);
  EXPECT_EQ(digest_from_hex(std::string(64, 'g')), std::nullopt);
}

TEST(ManifestTest, ChunksAreNumberedThroughAllFiles) {
  const ChunkedFiles files;
  const Manifest& manifest = files.manifest;
  ASSERT_EQ(manifest.chunk_count(), 22u);
  EXPECT_EQ(manifest.total_bytes(), 20 * kTestChunk + 400u);
  uint64_t bytes = 0;
  for (size_t i = 0; i < manifest.chunk_count(); ++i) {
    const Manifest::Place place = manifest.place(i);
    const std::string& contents = files.contents[place.file];
    ASSERT_LE(place.offset + place.bytes, contents.size());
    EXPECT_EQ(digest_of(std::as_bytes(std::span(contents)).subspan(place.offset, place.bytes)),
              manifest.digest(i));
    bytes += place.bytes;
  }
  EXPECT_EQ(bytes, manifest.total_bytes());
  EXPECT_EQ(manifest.place(20).bytes, 100u);
  EXPECT_EQ(manifest.place(21).file, 1u);
}

TEST(ManifestTest, RangesMarkTheChunksTheyTouch) {
  const ChunkedFiles files;
  ChunkSet set = files.manifest.none();
  files.manifest.mark(0, 1023, 1025, set);
  files.manifest.mark(0, 4096, 4096, set);  // empty
  files.manifest.mark(1, 0, 1, set);
  ChunkSet expected = files.manifest.none();
  expected[0] = expected[1] = expected[21] = true;
  EXPECT_EQ(set, expected);
  EXPECT_EQ(files.manifest.bytes_of(set), 2 * 1024u + 300);
  EXPECT_EQ(files.manifest.heads(), expected) << "1500 bytes of the first, all of the second";
}

TEST(ManifestTest, BytesAndBack) {
  const ChunkedFiles files;
  const auto parsed = Manifest::parse(files.manifest.to_bytes());
  ASSERT_TRUE(parsed.ok()) << parsed.status().text();
  EXPECT_EQ(parsed->id(), files.manifest.id());
  EXPECT_TRUE(std::ranges::equal(parsed->files(), files.manifest.files()));
  EXPECT_EQ(parsed->chunk_bytes(), kTestChunk);
}

// Whatever is changed, the id tells; and nothing that parses has a name that leads out of its folder.
RC_GTEST_PROP(ManifestTest, ChangedBytesAreRefusedOrHaveAnotherId, ()) {
  static const ChunkedFiles files;
  std::vector<std::byte> bytes = files.manifest.to_bytes();
  const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[at] ^= static_cast<std::byte>(*rc::gen::inRange(1, 256));
  const auto parsed = Manifest::parse(bytes);
  if (!parsed) return;
  RC_ASSERT(parsed->id() != files.manifest.id());
  for (const ManifestFile& file : parsed->files()) RC_ASSERT(is_plain_file_name(file.name));
}

RC_GTEST_PROP(ManifestTest, CutBytesAreRefused, ()) {
  static const ChunkedFiles files;
  const std::vector<std::byte> bytes = files.manifest.to_bytes();
  const auto size = *rc::gen::inRange<size_t>(0, bytes.size());
  RC_ASSERT(!Manifest::parse(std::span(bytes).first(size)).ok());
}

TEST(ManifestTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* name : {"", ".", "..", ".chunks", "a/b", "/etc/passwd", "a\\b", "a\nb", "a\x7f"})
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  EXPECT_FALSE(is_plain_file_name(std::string(256, 'a')));
  EXPECT_TRUE(is_plain_file_name("model-00001-of-00002.gguf"));
}

}  // namespace
}  // namespace butterfly::cluster
