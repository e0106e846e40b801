// Files that are cut, bent or shrink while we read them: always an Error, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/formats/gguf.h"
#include "model/formats/model_file.h"
#include "model/testing/gguf_test_bytes.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;
using testing::parse_error;
using testing::small_gguf;

const std::filesystem::path kData = shared_data();

std::string open_error(const std::filesystem::path& path) {
  try {
    open_model(path);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(GgufHostile, EveryPrefixIsRefused) {
  const auto bytes = small_gguf();
  const GgufFile whole = GgufFile::parse(bytes, "f");
  const size_t needed = whole.tensors().back().offset + whole.tensors().back().bytes;
  for (size_t size = 0; size < needed; ++size) {
    // A copy of exactly this size, so that the address sanitizer sees a read beyond it.
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THAT(parse_error(prefix), HasSubstr("f.gguf: ")) << size;
  }
  EXPECT_EQ(parse_error(std::span(bytes).first(needed)), "");
}

// Parses; if that works, uses everything there is.
void parse_and_touch(const std::vector<std::byte>& bytes) {
  try {
    const GgufFile file = GgufFile::parse(bytes, "f");
    for (const GgufTensor& info : file.tensors()) {
      ASSERT_LE(info.offset + info.bytes, bytes.size());
      const Tensor tensor = file.tensor(info);
      ASSERT_EQ(tensor.bytes(), info.bytes);
    }
    for (const auto& entry : file.metadata().entries()) (void)meta_text(entry.value);
  } catch (const Error& error) {
    ASSERT_GT(std::string(error.what()).size(), 4u);
  }
}

TEST(GgufHostile, EveryFlippedBitGivesASoundFileOrAnError) {
  const auto original = small_gguf();
  for (size_t bit = 0; bit < original.size() * 8; ++bit) {
    auto bytes = original;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    parse_and_touch(bytes);
  }
}

// What the fuzzer starts from, and files it once found fault with.
TEST(GgufHostile, FuzzCorpus) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_path("src/model/formats/gguf_fuzz_corpus"))) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto bytes = std::as_bytes(std::span(text));
    parse_and_touch({bytes.begin(), bytes.end()});
    ++count;
  }
  EXPECT_GE(count, 3u);
}

RC_GTEST_PROP(GgufHostile, BentBytesGiveASoundFileOrAnError, ()) {
  static const auto original = small_gguf();
  auto bytes = original;
  const auto changes = *rc::gen::inRange(2, 10);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::inRange(0, 256));
  }
  parse_and_touch(bytes);
}

TEST(GgufHostile, AFileThatShrinksIsAnError) {
  const auto path =
      std::filesystem::temp_directory_path() / ("shrinking-" + std::to_string(getpid()) + ".gguf");
  // A header that spans many pages: one long array.
  testing::RawBytes raw;
  raw.header(0, 1).key("k", MetaType::kArray).put(uint32_t{0}).put(uint64_t{1} << 20).zeros(1 << 20);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.bytes.data()), static_cast<std::streamsize>(raw.bytes.size()));
  const auto mapping = MappedFile::open(path);
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  try {
    GgufFile::open(mapping);
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kIo);
    EXPECT_THAT(error.what(), HasSubstr("shrinking-"));
  }
  std::filesystem::remove(path);
}

TEST(GgufHostile, OddFilesFromPublicRepositories) {
  if (!std::filesystem::exists(kData)) GTEST_SKIP() << "no " << kData;
  EXPECT_THAT(open_error(kData / "hostile/lfs-pointer.gguf"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(open_error(kData / "hostile/lfs-pointer.safetensors"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(open_error(kData / "hostile/big-endian-vocab.gguf"), HasSubstr("big-endian GGUF of version 3"));
  EXPECT_THAT(open_error(kData / "hostile/tiny.gguf"), HasSubstr("tensor test.weight.0: ends at byte"));
  EXPECT_EQ(open_error(kData / "hostile/empty.gguf"), "");  // sound, but there is nothing in it
  EXPECT_TRUE(open_model(kData / "hostile/empty.gguf").tensors().empty());
  const ModelFile nameless = open_model(kData / "hostile/no-architecture.gguf");
  try {
    (void)nameless.architecture();
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("key general.architecture: expected string, found no such key"));
  }
}

}  // namespace
}  // namespace butterfly::model
