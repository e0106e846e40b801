// Where a text ends, what is refused, and what a damaged file does.
#include "runtime/layers/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;
using testing::RandomModel;

GenerateOptions greedy_options(size_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.tokens_max = tokens;
  options.ignore_eos = true;
  return options;
}

TEST(Generate, EndsAtLengthContextStopStringAndCancel) {
  RandomModel model(DType::kQ8_0);
  CachedLayers layers(*model.loaded().model, model.loaded().pool,
                      {.positions = 64, .sequences = 1, .kv_type = DType::kF16, .rows_max = 512});
  const std::vector<int32_t> prompt = {1, 40, 50};
  std::string text;
  const TextSink sink = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  EXPECT_EQ(generate(layers, prompt, greedy_options(5), sink).reason, StopReason::kLength);
  EXPECT_EQ(generate(layers, prompt, greedy_options(5), sink).tokens.size(), 5u);

  text.clear();
  const GenerateResult full = generate(layers, prompt, greedy_options(1000), sink);
  EXPECT_EQ(full.reason, StopReason::kContext);
  EXPECT_EQ(full.tokens.size(), 64u - 3 + 1) << "the last token needs no room in the cache";

  ASSERT_GT(text.size(), 12u);
  const std::string all = text;
  GenerateOptions options = greedy_options(1000);
  options.stops = {all.substr(5, 4)};
  text.clear();
  EXPECT_EQ(generate(layers, prompt, options, sink).reason, StopReason::kStopString);
  EXPECT_EQ(text, all.substr(0, all.find(options.stops[0])));

  size_t calls = 0;
  const auto cancelled =
      generate(layers, prompt, greedy_options(1000), [&](std::string_view) { return ++calls < 4; });
  EXPECT_EQ(cancelled.reason, StopReason::kCancelled);
  EXPECT_LT(cancelled.tokens.size(), 6u);
}

// What is in the cache need not be run again: the same tokens come out.
TEST(Generate, GoesOnFromWhatTheCacheKeeps) {
  RandomModel model(DType::kQ8_0);
  const CachedLayersOptions shape{.positions = 64, .sequences = 1, .kv_type = DType::kF16, .rows_max = 512};
  CachedLayers layers(*model.loaded().model, model.loaded().pool, shape),
      fresh(*model.loaded().model, model.loaded().pool, shape);
  const TextSink sink = [](std::string_view) { return true; };
  std::vector<int32_t> prompt = {1, 40, 50};
  const GenerateResult first = generate(layers, prompt, greedy_options(8), sink);
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  prompt.insert(prompt.end(), {60, 70});
  const GenerateResult expected = generate(fresh, prompt, greedy_options(8), sink);
  for (const size_t kept : {10u, 4u, 0u}) {  // 3 of the prompt and 7 of 8 generated are there
    GenerateOptions options = greedy_options(8);
    options.kept = kept;
    const GenerateResult second = generate(layers, prompt, options, sink);
    EXPECT_EQ(second.tokens, expected.tokens) << kept;
    EXPECT_EQ(second.prompt_tokens, prompt.size());
  }
}

TEST(Generate, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  RandomModel model(DType::kF32);
  CachedLayers layers(*model.loaded().model, model.loaded().pool,
                      {.positions = 32, .sequences = 1, .kv_type = DType::kF16, .rows_max = 512});
  const std::vector<int32_t> prompt(33, 40);
  try {
    generate(layers, prompt, greedy_options(1), [](std::string_view) { return true; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("33 tokens, the context holds 32"));
  }
  EXPECT_THROW(generate(layers, {}, greedy_options(1), [](std::string_view) { return true; }), Error);
}

TEST(CachedLayers, BadRowsAreErrors) {
  RandomModel model(DType::kF32);
  CachedLayers layers(*model.loaded().model, model.loaded().pool,
                      {.positions = 32, .sequences = 1, .kv_type = DType::kF16, .rows_max = 8});
  const auto run = [&](BatchRow row) { layers.run({&row, 1}); };
  EXPECT_THROW(run({-1, 0, 0, true}), Error);
  EXPECT_THROW(run({320, 0, 0, true}), Error);
  EXPECT_THROW(run({1, 1, 0, true}), Error);
  EXPECT_THROW(run({1, 0, 32, true}), Error);
  EXPECT_THROW(layers.run(std::vector<BatchRow>(9, BatchRow{1, 0, 0, true})), Error);
  EXPECT_NO_THROW(run({1, 0, 0, true}));
}

// The model file with some of its metadata or tensors changed.
std::string load_error(const std::filesystem::path& path) {
  ThreadPool pool(1);
  try {
    load_model(path, pool);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void replace_in_file(const std::filesystem::path& from, const std::filesystem::path& to,
                     std::string_view old_text, std::string_view new_text) {
  std::string bytes = testing::read_text(from);
  const size_t at = bytes.find(old_text);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, old_text.size(), new_text);
  std::ofstream(to, std::ios::binary) << bytes;
}

TEST(LoadModel, DamagedFilesAreRefusedInWords) {
  RandomModel model(DType::kQ8_0);
  const auto bad = model.path().string() + ".bad";
  // Values stand behind their key and four bytes of type.
  replace_in_file(model.path(), bad, "general.architecture\x08", "general.architecturE\x08");
  EXPECT_THAT(load_error(bad), HasSubstr("general.architecture"));
  replace_in_file(model.path(), bad, "blk.0.attn_q.weight", "blk.0.attn_X.weight");
  EXPECT_THAT(load_error(bad), HasSubstr("blk.0.attn_q.weight"));
  replace_in_file(model.path(), bad, "llama.attention.head_count_kv", "llama.attention.head_count_kV");
  EXPECT_THAT(load_error(bad),
              HasSubstr("blk.0.attn_k.weight: expected"));  // eight heads expected, two found
  std::string bytes = testing::read_text(model.path());
  std::ofstream(bad, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  EXPECT_THAT(load_error(bad), HasSubstr(bad));
  std::filesystem::remove(bad);
}

TEST(LoadModel, AnUnknownArchitectureIsNamed) {
  RandomModel model(DType::kQ8_0);
  const auto bad = model.path().string() + ".bad";
  std::string bytes = testing::read_text(model.path());
  // The value "llama" of general.architecture follows its key, type and length.
  const size_t at = bytes.find("llama", bytes.find("general.architecture"));
  bytes.replace(at, 5, "mamba");
  std::ofstream(bad, std::ios::binary) << bytes;
  EXPECT_THAT(load_error(bad), HasSubstr("architecture 'mamba' is not supported; this build knows llama"));
  std::filesystem::remove(bad);
}

}  // namespace
}  // namespace butterfly::runtime
