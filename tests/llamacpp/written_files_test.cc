// Files that we write, read by llama.cpp: every type that `quantize` knows, and converted folders.
#include <fmt/format.h>

#include "base/testing/test_name.h"
#include "compare.h"
#include "model/formats/convert.h"
#include "model/testing/hf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::testing {
namespace {

using model::file_types;
using model::FileType;
using runtime::testing::small_options;
using runtime::testing::some_tokens;

constexpr size_t kPositions = 64, kContext = 128;

// Runs each file in both programs.
void compare_files(const std::vector<std::pair<std::string, std::filesystem::path>>& files,
                   const std::function<DType(size_t)>& type_of) {
  const auto tokens = some_tokens(kPositions, 320);
  std::vector<OracleJob> jobs;
  for (const auto& [name, path] : files)
    jobs.push_back({.model = path, .tokens = tokens, .context = kContext});
  const auto theirs = oracle_logits(jobs);
  for (size_t i = 0; i < files.size(); ++i)
    expect_agreement(files[i].first, type_of(i), theirs[i], our_logits(files[i].second, tokens, kContext),
                     kPositions);
}

class LlamaCppQuantised : public LlamaCppFiles, public ::testing::WithParamInterface<const char*> {};

TEST_P(LlamaCppQuantised, EveryFileTypeIsReadAndAgrees) {
  model::RandomModelOptions options = small_options(GetParam(), DType::kF32);
  options.block_count = 4;
  options.expert_count = 8;  // for which the rules have cases of their own
  model::write_random_model(dir_ / "f32.gguf", options);
  const model::ModelFile from = model::open_model(dir_ / "f32.gguf");
  ThreadPool pool(2);
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  for (const FileType& type : file_types()) {
    files.emplace_back(fmt::format("{:<9} {:<7}", GetParam(), type.name),
                       dir_ / fmt::format("{}.gguf", type.name));
    model::convert_model(from, files.back().second, {.type = &type}, pool);
  }
  compare_files(files, [](size_t i) { return file_types()[i].base; });
}

INSTANTIATE_TEST_SUITE_P(Architectures, LlamaCppQuantised, ::testing::Values("llama", "mixtral", "phi3"),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

// Rows of 96 and 160 values: no K-quant divides them.
TEST_F(LlamaCppFiles, TypesForRowsThatNoBlockDividesAreReadAndAgree) {
  model::RandomModelOptions options = small_options("llama", DType::kF32);
  options.embedding_length = 96;
  options.head_count = 4;
  options.head_count_kv = 2;
  options.feed_forward_length = 160;
  model::write_random_model(dir_ / "f32.gguf", options);
  const model::ModelFile from = model::open_model(dir_ / "f32.gguf");
  ThreadPool pool(2);
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  for (const FileType& type : file_types()) {
    files.emplace_back(fmt::format("rows of 96 {:<7}", type.name), dir_ / fmt::format("{}.gguf", type.name));
    const auto result = model::convert_model(from, files.back().second, {.type = &type}, pool);
    EXPECT_EQ(result.fallbacks > 0, dtype_info(type.base).block_values == 256) << type.name;
  }
  compare_files(files, [](size_t i) { return file_types()[i].base; });
}

TEST_F(LlamaCppFiles, ConvertedFoldersAreReadAndAgree) {
  const std::pair<const char*, const char*> classes[] = {
      {"llama", "LlamaForCausalLM"},   {"mixtral", "MixtralForCausalLM"},   {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},   {"qwen3moe", "Qwen3MoeForCausalLM"}, {"phi3", "Phi3ForCausalLM"},
      {"gemma2", "Gemma2ForCausalLM"}, {"gemma3", "Gemma3ForCausalLM"},     {"gpt2", "GPT2LMHeadModel"}};
  ThreadPool pool(2);
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  for (const auto& [layout, class_name] : classes) {
    model::RandomModelOptions options = small_options(layout, DType::kF32);
    options.tied = std::string_view(layout) == "gpt2" || std::string_view(layout).starts_with("gemma");
    if (std::string_view(layout) == "gpt2") options.head_count_kv = options.head_count;
    model::write_random_model(dir_ / "f32.gguf", options);
    // The folder becomes the model's name, and llama.cpp takes "phi3" in a name as a promise of tokens.
    const auto folder = dir_ / fmt::format("folder-{}", files.size());
    model::testing::write_hf_folder(model::open_model(dir_ / "f32.gguf"), folder, {class_name, 2});
    files.emplace_back(fmt::format("{:<20}", class_name), dir_ / fmt::format("{}.gguf", class_name));
    model::convert_model(model::open_model(folder), files.back().second, {}, pool);
  }
  compare_files(files, [](size_t) { return DType::kF32; });
}

}  // namespace
}  // namespace butterfly::testing
