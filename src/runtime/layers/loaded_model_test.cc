// Models in memory: rows that are refused, and what a damaged file does.
#include "runtime/layers/loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;
using testing::RandomModel;

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
