#include "model/formats/llama2c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/testing/gguf_test_bytes.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;
using testing::RawBytes;

const std::filesystem::path kModels = shared_data("models/stories260K");

class Llama2c : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("llama2c-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path save(const std::string& name, const RawBytes& raw) {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(raw.bytes.data()),
               static_cast<std::streamsize>(raw.bytes.size()));
    return folder_ / name;
  }
  static std::string open_error(const std::filesystem::path& path, const OpenModelOptions& options = {}) {
    try {
      open_model(path, options);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::filesystem::path folder_;
};

// dim 8, hidden 12, 2 layers, 2 heads, 1 key-value head, vocabulary 5, context 6. Values count up from 0 in
// file order.
constexpr size_t kEmbedding = 5 * 8;
constexpr size_t kLayerValues = 8 * 8 * 2 + 4 * 8 * 2 + 12 * 8 * 3;
constexpr size_t kNorms = 2 * 8 * 2 + 8;

RawBytes& fields(RawBytes& raw, int32_t vocab) {
  for (const int32_t field : {8, 12, 2, 2, 1, vocab, 6}) raw.put(field);
  return raw;
}

RawBytes& counting(RawBytes& raw, size_t count) {
  for (size_t i = 0; i < count; ++i) raw.put(static_cast<float>(i));
  return raw;
}

TEST_F(Llama2c, LegacyTiedAndUntied) {
  RawBytes tied;
  counting(fields(tied, 5), kEmbedding + 2 * kLayerValues + kNorms + 6 * 4);
  const ModelFile model = open_model(save("tied.bin", tied));
  EXPECT_EQ(model.format(), "llama2.c v0");
  EXPECT_EQ(model.architecture(), "llama");
  EXPECT_EQ(model.metadata().u32("llama.attention.head_count_kv"), 1u);
  EXPECT_FALSE(model.has("output.weight"));
  EXPECT_EQ(model.tensor("token_embd.weight", {5, 8}).data<float>()[1], 1.0f);
  EXPECT_EQ(model.tensor("blk.1.attn_norm.weight", {8}).data<float>()[0], 48.0f);
  EXPECT_EQ(model.tensor("blk.0.attn_q.weight", {8, 8}).data<float>()[0], 56.0f);
  EXPECT_EQ(model.tensor("blk.1.attn_k.weight", {4, 8}).data<float>()[0], 56.0f + 128 + 32);
  EXPECT_EQ(model.tensor("blk.0.ffn_down.weight", {8, 12}).shape(), (Shape{8, 12}));
  EXPECT_FALSE(model.metadata().has("tokenizer.ggml.model"));

  RawBytes untied;
  const size_t before = kEmbedding + 2 * kLayerValues + kNorms + 6 * 4;
  counting(fields(untied, -5), before + kEmbedding);
  const ModelFile other = open_model(save("untied.bin", untied));
  EXPECT_EQ(other.tensor("output.weight", {5, 8}).data<float>()[0], static_cast<float>(before));
  EXPECT_EQ(other.parameter_count(), 2 * kEmbedding + 2 * kLayerValues + kNorms);
}

TEST_F(Llama2c, Version1) {
  RawBytes raw;
  fields(raw.put(uint32_t{0x616b3432}).put(int32_t{1}), 5).put(uint8_t{0}).pad(256);
  counting(raw, 2 * kEmbedding + 2 * kLayerValues + kNorms);
  const ModelFile model = open_model(save("v1.bin", raw));
  EXPECT_EQ(model.format(), "llama2.c v1");
  EXPECT_EQ(model.tensor("output_norm.weight", {8}).data<float>()[0], 32.0f);
  EXPECT_EQ(model.tensor("token_embd.weight", {5, 8}).data<float>()[0], 40.0f);
  EXPECT_TRUE(model.has("output.weight"));
  raw.put(1.0f);
  EXPECT_THAT(open_error(save("long.bin", raw)), HasSubstr("llama2.c version 1: expected"));
}

// Values count through all bytes; every group's scale is a power of two, so that products are exact.
TEST_F(Llama2c, Version2IsInt8WithAScalePerGroup) {
  constexpr int32_t kGroup = 4;
  RawBytes raw;
  fields(raw.put(uint32_t{0x616b3432}).put(int32_t{2}), 5).put(uint8_t{0}).put(kGroup).pad(256);
  counting(raw, kNorms);
  const auto grouped = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) raw.put(static_cast<int8_t>(i));
    for (size_t g = 0; g < count / kGroup; ++g) raw.put(std::ldexp(1.0f, static_cast<int>(g % 20) - 10));
  };
  grouped(kEmbedding);
  for (const size_t count : {8 * 8, 4 * 8, 4 * 8, 8 * 8, 12 * 8, 8 * 12, 12 * 8})
    for (int layer = 0; layer < 2; ++layer) grouped(count);
  grouped(kEmbedding);
  const ModelFile model = open_model(save("v2.bin", raw));
  EXPECT_EQ(model.format(), "llama2.c v2");
  EXPECT_EQ(model.tensor("blk.1.ffn_norm.weight", {8}).data<float>()[0], 24.0f);
  for (const char* name :
       {"token_embd.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight", "output.weight"}) {
    const Tensor tensor = model.tensor(name);
    ASSERT_EQ(tensor.dtype(), DType::kF32);
    for (int64_t i = 0; i < tensor.count(); ++i)
      ASSERT_EQ(tensor.data<float>()[i], static_cast<float>(static_cast<int8_t>(i)) *
                                             std::ldexp(1.0f, static_cast<int>(i / kGroup % 20) - 10))
          << name << " " << i;
  }
  raw.put(uint8_t{1});
  EXPECT_THAT(open_error(save("long.bin", raw)), HasSubstr("llama2.c version 2: expected"));
}

TEST_F(Llama2c, BadHeaders) {
  RawBytes version3;
  fields(version3.put(uint32_t{0x616b3432}).put(int32_t{3}), 5).pad(256);
  EXPECT_THAT(open_error(save("v3.bin", version3)), HasSubstr("version: expected 0 to 2, found 3"));
  for (const int32_t group : {0, -4, 3, 8}) {  // 8 columns and 12 divide into groups of 4
    RawBytes version2;
    fields(version2.put(uint32_t{0x616b3432}).put(int32_t{2}), 5).put(uint8_t{1}).put(group).pad(256);
    EXPECT_THAT(open_error(save("v2.bin", version2)),
                HasSubstr("group_size: expected a divisor of dim 8 and hidden_dim 12"));
  }
  RawBytes shorter;
  counting(fields(shorter, 5), 3);
  EXPECT_THAT(open_error(save("short.bin", shorter)), HasSubstr("as version 0 its header asks for"));
  RawBytes absurd;
  for (const int32_t field : {8, 12, 2, 3, 1, 5, 6}) absurd.put(field);
  EXPECT_THAT(open_error(save("absurd.bin", absurd)), HasSubstr("dim 8 does not split into 3 heads"));
  RawBytes huge;
  for (int i = 0; i < 7; ++i) huge.put(INT32_MAX);
  EXPECT_THAT(open_error(save("huge.bin", huge)), HasSubstr("dim: expected 1 to"));
}

RawBytes tokenizer_file(std::vector<std::string> pieces) {
  RawBytes raw;
  raw.put(uint32_t{10});
  for (const std::string& piece : pieces) raw.put(-1.0f).put(static_cast<uint32_t>(piece.size())).text(piece);
  return raw;
}

TEST_F(Llama2c, TokenizerBesideTheModel) {
  RawBytes model;
  counting(fields(model, 5), kEmbedding + 2 * kLayerValues + kNorms + 6 * 4);
  save("m.bin", model);
  const std::vector<std::string> pieces = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x00>", "<0x01>"};
  save("tokenizer.bin", tokenizer_file(pieces));
  const ModelFile opened = open_model(folder_ / "m.bin");
  EXPECT_THAT(opened.metadata().strings("tokenizer.ggml.tokens"),
              ::testing::ElementsAre("<unk>", "<s>", "</s>", "<0x00>", "<0x01>"));
  // A file of another vocabulary is refused, also under the more specific name, which comes first.
  save("tok5.bin", tokenizer_file({"<unk>", "<s>"}));
  EXPECT_THAT(open_error(folder_ / "m.bin"), HasSubstr("tok5.bin: piece 2 of 5"));
  auto longer = pieces;
  longer.push_back("x");
  const auto explicit_path = save("other.bin", tokenizer_file(longer));
  EXPECT_THAT(open_error(folder_ / "m.bin", {explicit_path}), HasSubstr("other.bin: end: expected 5 pieces"));
  auto wrong = pieces;
  wrong[3] = "<0x07>";
  EXPECT_THAT(open_error(folder_ / "m.bin", {save("wrong.bin", tokenizer_file(wrong))}),
              HasSubstr("piece 3 of 5: expected <0x00>, found <0x07>"));
  EXPECT_THAT(open_error(folder_ / "m.bin", {folder_ / "none.bin"}), HasSubstr("none.bin"));
}

// Characters only: no piece for a byte, so ids behind </s> are pieces like any other.
TEST_F(Llama2c, VocabularyOfCharactersHasNoBytes) {
  RawBytes model;
  counting(fields(model, 5), kEmbedding + 2 * kLayerValues + kNorms + 6 * 4);
  save("m.bin", model);
  save("tokenizer.bin", tokenizer_file({"<unk>", "<s>", "</s>", " ", "a"}));
  const ModelFile opened = open_model(folder_ / "m.bin");
  const auto tokenizer = make_tokenizer(opened.metadata());
  EXPECT_THAT(tokenizer->encode("aa"), ::testing::ElementsAre(1, 3, 4, 4));
  EXPECT_THAT(tokenizer->encode("a\xc3\xa9z a"), ::testing::ElementsAre(1, 3, 4, 0, 3, 4));  // unknown, once
}

TEST_F(Llama2c, SameWeightsAsTheGguf) {
  if (!std::filesystem::exists(kModels)) GTEST_SKIP() << "no " << kModels;
  const ModelFile gguf = open_model(kModels / "stories260K.gguf");
  for (const char* name : {"stories260K.bin", "stories260K-v1.bin"}) {
    const ModelFile model = open_model(kModels / name);
    size_t compared = 0;
    for (const NamedTensor& entry : model.tensors()) {
      const Tensor same = gguf.tensor(entry.name, entry.shape);
      EXPECT_EQ(std::memcmp(same.raw(), entry.view.raw(), entry.bytes), 0) << name << " " << entry.name;
      ++compared;
    }
    EXPECT_EQ(compared, 47u) << name;  // all but output.weight, which the .bin files share with the embedding
    EXPECT_EQ(model.parameter_count(), 260032u);
    const auto tokens = model.metadata().strings("tokenizer.ggml.tokens");
    const auto expected = gguf.metadata().strings("tokenizer.ggml.tokens");
    ASSERT_EQ(tokens.size(), expected.size());
    for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], expected[i]) << i;
    EXPECT_EQ(model.metadata().i32s("tokenizer.ggml.token_type"),
              gguf.metadata().i32s("tokenizer.ggml.token_type"));
  }
}

}  // namespace
}  // namespace butterfly::model
