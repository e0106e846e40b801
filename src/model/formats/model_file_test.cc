#include "model/formats/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "model/testing/gguf_test_bytes.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("model-file-" + std::to_string(getpid()) + ".gguf");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void save(std::span<const std::byte> bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  template <typename Fn>
  static std::string error_of(Fn&& fn) {
    try {
      fn();
      return "no Error";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::filesystem::path path_;
};

TEST_F(ModelFileTest, TensorsByNameAndShape) {
  save(testing::small_gguf());
  const ModelFile file = open_model(path_);
  EXPECT_EQ(file.format(), "gguf v3");
  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_EQ(file.tensor("a", {2, 3}).count(), 6);
  EXPECT_THAT(error_of([&] {
                file.tensor("a", {3, 2});
              }),
              HasSubstr("tensor a: expected shape [3, 2], found [2, 3]"));
  EXPECT_THAT(error_of([&] { file.tensor("blk.0.attn_q.weight"); }),
              HasSubstr("tensor blk.0.attn_q.weight: expected"));
  EXPECT_EQ(file.parameter_count(), 6u + 64 + 5);
  EXPECT_EQ(file.tensor_bytes(), 24u + 68 + 10);
  const auto shares = file.type_shares();
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].type, "Q8_0");
  EXPECT_EQ(shares[0].value_count, 64u);
  EXPECT_EQ(shares[2].bytes, 10u);
}

TEST_F(ModelFileTest, AFileOfNoFormatIsDescribed) {
  save(testing::RawBytes().text("hello, this is a letter and no model at all").bytes);
  const std::string error = error_of([&] { open_model(path_); });
  EXPECT_THAT(error, HasSubstr("expected a model, found first bytes 68 65 6c 6c"));
  for (const ModelFormat& format : model_formats())
    EXPECT_THAT(error, HasSubstr(std::string(format.name) + ": "));
  save({});
  EXPECT_THAT(error_of([&] { open_model(path_); }), HasSubstr("found an empty file"));
  EXPECT_THAT(error_of([&] { open_model(path_.parent_path()); }),
              HasSubstr("found a folder (gguf: is a folder; hugging face folder: has no config.json"));
  EXPECT_THAT(error_of([&] { open_model(path_.string() + ".none"); }), HasSubstr(".none"));
}

TEST_F(ModelFileTest, TensorsOutliveTheModelFile) {
  save(testing::small_gguf());
  Tensor tensor;
  {
    const ModelFile file = open_model(path_);
    tensor = file.tensor("c");
  }
  EXPECT_EQ(std::to_integer<int>(tensor.raw()[0]), 120);
}

}  // namespace
}  // namespace butterfly::model
