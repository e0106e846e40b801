#include "model/formats/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "model/synthetic/random_model.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <typename Fn>
std::string error_of(Fn&& fn) {
  try {
    fn();
    return "no Error";
  } catch (const Error& error) {
    return error.what();
  }
}

// A random model, and the same in `count` parts.
class SplitGguf : public ::testing::Test {
 protected:
  void SetUp() override {
    RandomModelOptions options;
    options.vocabulary_size = 300;
    options.embedding_length = 32;
    options.feed_forward_length = 64;
    options.block_count = 2;
    options.head_count = options.head_count_kv = 4;
    options.matrix_type = DType::kQ8_0;
    write_random_model(folder_ / "whole.gguf", options);
    write_parts(3, 3);
  }

  void write_parts(uint32_t count, uint16_t claimed) {
    const ModelFile whole = open_model(folder_ / "whole.gguf");
    for (uint32_t number = 1; number <= count; ++number) {
      Metadata metadata = number == 1 ? whole.metadata() : Metadata();
      metadata.set("split.no", static_cast<uint16_t>(number - 1));
      metadata.set("split.count", claimed);
      metadata.set("split.tensors.count", static_cast<int32_t>(whole.tensors().size()));
      GgufWriter writer(metadata);
      const size_t per_part = (whole.tensors().size() + count - 1) / count;
      for (size_t i = (number - 1) * per_part; i < std::min(number * per_part, whole.tensors().size()); ++i)
        writer.add_tensor(whole.tensors()[i].name, whole.tensor(whole.tensors()[i].name));
      writer.write(part(number, count));
    }
  }
  fs::path part(uint32_t number, uint32_t count = 3) const {
    return gguf_part_path(folder_ / "m", number, count);
  }

  butterfly::testing::TempDir folder_;
};

TEST_F(SplitGguf, EqualsTheUnsplitModel) {
  const ModelFile whole = open_model(folder_ / "whole.gguf");
  const ModelFile split = open_model(part(1));
  EXPECT_EQ(split.format(), "gguf v3, 3 parts");
  EXPECT_EQ(split.files().size(), 3u);
  ASSERT_EQ(split.tensors().size(), whole.tensors().size());
  for (size_t i = 0; i < whole.tensors().size(); ++i) {
    const NamedTensor& expected = whole.tensors()[i];
    EXPECT_EQ(split.tensors()[i].name, expected.name);
    const Tensor a = whole.tensor(expected.name), b = split.tensor(expected.name, expected.shape);
    ASSERT_EQ(a.bytes(), b.bytes());
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << expected.name;
    split.done_with(b);
  }
  ASSERT_EQ(split.metadata().entries().size(), whole.metadata().entries().size());
  for (const auto& [key, value] : whole.metadata().entries()) EXPECT_EQ(*split.metadata().find(key), value);
}

TEST_F(SplitGguf, NamesAMissingPart) {
  fs::remove(part(2));
  EXPECT_THAT(error_of([&] { open_model(part(1)); }),
              HasSubstr("part 2 of 3 is missing: expected " + part(2).string()));
}

TEST_F(SplitGguf, LaterPartsPointAtTheFirst) {
  EXPECT_THAT(error_of([&] { open_model(part(2)); }),
              HasSubstr("is part 2 of 3; open the first part, " + part(1).string()));
}

TEST_F(SplitGguf, RefusesPartsThatDoNotBelong) {
  fs::copy_file(part(3), part(2), fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { open_model(part(1)); }), HasSubstr("key split.no: expected 1, found 2"));
  fs::copy_file(part(1), folder_ / "renamed.gguf");
  EXPECT_THAT(error_of([&] { open_model(folder_ / "renamed.gguf"); }),
              HasSubstr("expected a name like model-00001-of-00003.gguf"));
  fs::copy_file(folder_ / "whole.gguf", part(2), fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { open_model(part(1)); }),
              HasSubstr("key split.no: expected u32, found no such key"));
}

TEST_F(SplitGguf, CountsTensors) {
  write_parts(2, 2);
  const ModelFile whole = open_model(folder_ / "whole.gguf");
  Metadata metadata;
  metadata.set("split.no", uint16_t{1});
  metadata.set("split.count", uint16_t{2});
  GgufWriter(metadata).write(part(2, 2));
  EXPECT_THAT(error_of([&] { open_model(part(1, 2)); }), HasSubstr("key split.tensors.count: says"));
  GgufWriter twice(metadata);
  twice.add_tensor("token_embd.weight", whole.tensor("token_embd.weight"));
  twice.write(part(2, 2));
  EXPECT_THAT(error_of([&] { open_model(part(1, 2)); }), HasSubstr("found in an earlier part too"));
}

TEST(GgufPartNames, AreParsed) {
  const auto name = parse_gguf_part("a/b-c-00002-of-00012.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "a/b-c");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 12u);
  EXPECT_EQ(gguf_part_path(name->prefix, 2, 12), "a/b-c-00002-of-00012.gguf");
  for (const char* other :
       {"", "x.gguf", "x-00003-of-00002.gguf", "x-00000-of-00002.gguf", "x-0001-of-0002.gguf",
        "x-0000a-of-00002.gguf", "x-00001-of-00002.bin", "x-00001_of-00002.gguf"})
    EXPECT_FALSE(parse_gguf_part(other)) << other;
}

}  // namespace
}  // namespace butterfly::model
