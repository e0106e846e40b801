#include "model/formats/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "kernels/quant/quant.h"
#include "model/synthetic/random_model.h"
#include "model/testing/hf_test_folder.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Convert : public ::testing::Test {
 protected:
  fs::path make(const char* name, DType type) {
    RandomModelOptions options;
    options.vocabulary_size = 300;
    options.embedding_length = 256;
    options.feed_forward_length = 320;
    options.block_count = 2;
    options.head_count = options.head_count_kv = 4;
    options.matrix_type = options.vocabulary_type = type;
    write_random_model(folder_ / name, options);
    return folder_ / name;
  }
  ConvertResult run(const fs::path& from, const fs::path& to, const char* type, bool requantize = false,
                    size_t threads = 2) {
    ThreadPool pool(threads);
    ConvertOptions options;
    if (type) options.type = file_type_by_name(type);
    options.allow_requantize = requantize;
    return convert_model(open_model(from), to, options, pool,
                         [&](uint64_t done, uint64_t total, const std::string&) {
                           EXPECT_LE(done, total);
                           last_done_ = done;
                         });
  }
  std::string error_of(const fs::path& from, const fs::path& to, const char* type) {
    try {
      run(from, to, type);
      return "no Error";
    } catch (const Error& error) {
      return error.what();
    }
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  butterfly::testing::TempDir folder_;
  uint64_t last_done_ = 0;
};

TEST_F(Convert, WithoutATypeValuesAndKeysStay) {
  const fs::path from = make("in.gguf", DType::kQ4_0);
  const ConvertResult result = run(from, folder_ / "out.gguf", nullptr);
  EXPECT_EQ(result.bytes, fs::file_size(folder_ / "out.gguf"));
  const ModelFile a = open_model(from), b = open_model(folder_ / "out.gguf");
  EXPECT_EQ(last_done_, a.tensor_bytes());
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (const NamedTensor& entry : a.tensors()) {
    const Tensor same = b.tensor(entry.name, entry.shape);
    EXPECT_EQ(std::memcmp(same.raw(), entry.view.raw(), entry.bytes), 0) << entry.name;
  }
  for (const auto& [key, value] : a.metadata().entries()) EXPECT_EQ(*b.metadata().find(key), value) << key;
}

TEST_F(Convert, ToF16AndBackIsF16) {
  const fs::path from = make("in.gguf", DType::kF32);
  run(from, folder_ / "f16.gguf", "F16");
  run(folder_ / "f16.gguf", folder_ / "f32.gguf", "F32");
  run(folder_ / "f32.gguf", folder_ / "again.gguf", "F16");
  EXPECT_EQ(bytes_of(folder_ / "f16.gguf"), bytes_of(folder_ / "again.gguf"));
  EXPECT_EQ(open_model(folder_ / "f16.gguf").metadata().u32("general.file_type"), 1u);
}

TEST_F(Convert, EveryFileTypeIsWrittenAsPlannedAndReadBack) {
  const fs::path from = make("in.gguf", DType::kF32);
  for (const FileType& type : file_types()) {
    const fs::path to = folder_ / (std::string(type.name) + ".gguf");
    run(from, to, std::string(type.name).c_str());
    const ModelFile a = open_model(from), b = open_model(to);
    EXPECT_EQ(b.metadata().u32("general.file_type"), type.number);
    EXPECT_EQ(b.metadata().u32("general.quantization_version"), 2u);
    const auto planned = plan_types(a, type);
    for (size_t i = 0; i < planned.size(); ++i) {
      const NamedTensor& entry = a.tensors()[i];
      const Tensor written = b.tensor(entry.name, entry.shape);
      ASSERT_EQ(written.dtype(), planned[i]) << entry.name;
      // The bytes are those of the quantiser over the whole tensor: chunks and threads leave no trace.
      std::vector<std::byte> expected(written.bytes());
      kernels::from_float(planned[i], entry.view.data<float>(), expected.data(), entry.count());
      EXPECT_EQ(std::memcmp(written.raw(), expected.data(), expected.size()), 0)
          << type.name << " " << entry.name;
    }
  }
}

TEST_F(Convert, ThreadsDoNotChangeTheFile) {
  const fs::path from = make("in.gguf", DType::kF32);
  run(from, folder_ / "one.gguf", "Q4_K_M", false, 1);
  run(from, folder_ / "three.gguf", "Q4_K_M", false, 3);
  EXPECT_EQ(bytes_of(folder_ / "one.gguf"), bytes_of(folder_ / "three.gguf"));
}

TEST_F(Convert, FallbacksAreCounted) {
  EXPECT_EQ(run(make("in.gguf", DType::kF32), folder_ / "out.gguf", "Q4_K_S").fallbacks,
            2u);  // ffn_down: 320
}

TEST_F(Convert, RequantisingHasToBeAskedFor) {
  const fs::path from = make("in.gguf", DType::kQ8_0);
  EXPECT_THAT(error_of(from, folder_ / "out.gguf", "Q4_0"), HasSubstr("is Q8_0 already"));
  EXPECT_THAT(error_of(from, folder_ / "out.gguf", "Q4_0"), HasSubstr("already and would lose more as Q4_0"));
  EXPECT_FALSE(fs::exists(folder_ / "out.gguf"));
  run(from, folder_ / "out.gguf", "Q4_0", /*requantize=*/true);
  EXPECT_EQ(open_model(folder_ / "out.gguf").tensor("blk.0.attn_q.weight").dtype(), DType::kQ4_0);
}

TEST_F(Convert, TheInputIsNeverOverwritten) {
  const fs::path from = make("in.gguf", DType::kF32);
  const std::string before = bytes_of(from);
  EXPECT_THAT(error_of(from, from, "F16"), HasSubstr("is the model that is read"));
  fs::create_symlink(from, folder_ / "link.gguf");
  EXPECT_THAT(error_of(from, folder_ / "link.gguf", "F16"), HasSubstr("is the model that is read"));
  EXPECT_EQ(bytes_of(from), before);
}

TEST_F(Convert, AFolderBecomesTheModelThatWasOpened) {
  folder_.write("hf/config.json", json_text(testing::tiny_config("LlamaForCausalLM")));
  folder_.write("hf/model.safetensors",
                testing::safetensors_bytes({{"model.embed_tokens.weight", {5, 8}},
                                            {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                                            {"model.norm.weight", {8}}},
                                           "BF16"));
  run(folder_ / "hf", folder_ / "out.gguf", nullptr);
  const ModelFile a = open_model(folder_ / "hf"), b = open_model(folder_ / "out.gguf");
  EXPECT_EQ(b.architecture(), "llama");
  EXPECT_EQ(b.tensor("output_norm.weight").dtype(), DType::kF32);
  const Tensor q = a.tensor("blk.0.attn_q.weight"), same = b.tensor("blk.0.attn_q.weight", {8, 8});
  ASSERT_EQ(same.dtype(), DType::kBF16);
  EXPECT_EQ(std::memcmp(q.raw(), same.raw(), q.bytes()), 0);
}

}  // namespace
}  // namespace butterfly::model
