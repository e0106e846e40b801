#include "model/formats/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "model/testing/gguf_test_bytes.h"

namespace butterfly::model {
namespace {

class GgufWriterFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("gguf-writer-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

MetaArray arbitrary_array(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 6 : 5)) {
    case 0:
      return string_array(*rc::gen::arbitrary<std::vector<std::string>>());
    case 1:
      return i32_array(*rc::gen::arbitrary<std::vector<int32_t>>());
    case 2:
      return {MetaType::kU64, *rc::gen::arbitrary<std::vector<uint64_t>>()};
    case 3:
      return {MetaType::kI8, *rc::gen::arbitrary<std::vector<int8_t>>()};
    case 4:
      return {MetaType::kF64, *rc::gen::arbitrary<std::vector<double>>()};
    default: {
      std::vector<MetaArray> inner;
      for (int i = *rc::gen::inRange(0, 3); i > 0; --i) inner.push_back(arbitrary_array(depth - 1));
      return {MetaType::kArray, std::move(inner)};
    }
  }
}

MetaValue arbitrary_value() {
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return *rc::gen::arbitrary<uint8_t>();
    case 1:
      return *rc::gen::arbitrary<int16_t>();
    case 2:
      return *rc::gen::arbitrary<uint32_t>();
    case 3:
      return *rc::gen::arbitrary<float>();
    case 4:
      return *rc::gen::arbitrary<bool>();
    case 5:
      return *rc::gen::arbitrary<std::string>();
    case 6:
      return *rc::gen::arbitrary<int64_t>();
    default:
      return arbitrary_array(2);
  }
}

RC_GTEST_PROP(GgufWriter, WhatIsWrittenIsRead, ()) {
  Metadata metadata("in");
  const int keys = *rc::gen::inRange(0, 8);
  for (int i = 0; i < keys; ++i) metadata.add("key." + std::to_string(i), arbitrary_value());
  const auto alignment = uint32_t{8} << *rc::gen::inRange(0, 6);
  metadata.add("general.alignment", alignment);
  GgufWriter writer(metadata);
  std::vector<Tensor> tensors;
  const int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) {
    const DType dtype = *rc::gen::element(DType::kF32, DType::kF16, DType::kQ4_0, DType::kQ6_K, DType::kI8);
    const auto block = static_cast<int64_t>(dtype_info(dtype).block_values);
    tensors.push_back(
        Tensor::zeros(dtype, {*rc::gen::inRange<int64_t>(1, 4), *rc::gen::inRange<int64_t>(1, 4) * block}));
    std::memset(tensors.back().raw(), i + 1, tensors.back().bytes());
    writer.add_tensor("t" + std::to_string(i), tensors.back());
  }
  MemorySink sink;
  writer.write(sink);
  RC_ASSERT(sink.bytes.size() == writer.file_bytes());

  const GgufFile file = GgufFile::parse(sink.bytes, "out");
  RC_ASSERT(file.alignment() == alignment);
  const auto entries = file.metadata().entries();
  RC_ASSERT(entries.size() == metadata.entries().size());
  for (size_t i = 0; i < entries.size(); ++i) {
    RC_ASSERT(entries[i].key == metadata.entries()[i].key);
    RC_ASSERT(entries[i].value == metadata.entries()[i].value);
  }
  RC_ASSERT(file.tensors().size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor read = file.tensor(file.tensors()[i]);
    RC_ASSERT(read.dtype() == tensors[i].dtype());
    RC_ASSERT(read.shape() == tensors[i].shape());
    RC_ASSERT(file.tensors()[i].offset % alignment == 0);
    RC_ASSERT(std::memcmp(read.raw(), tensors[i].raw(), read.bytes()) == 0);
  }
}

TEST_F(GgufWriterFiles, StreamsIntoAFileThatAppearsWhole) {
  const auto path = folder_ / "m.gguf";
  Metadata metadata("in");
  metadata.add("general.architecture", std::string("llama"));
  GgufWriter writer(metadata);
  writer.add_tensor("big", DType::kF32, {3, 1 << 20}, [&](ByteSink& sink) {
    std::vector<float> row(1 << 20);
    for (int r = 0; r < 3; ++r) {
      std::fill(row.begin(), row.end(), static_cast<float>(r));
      sink.write(std::as_bytes(std::span(row)));
    }
    EXPECT_FALSE(std::filesystem::exists(path));  // not before it is complete
  });
  writer.write(path);
  EXPECT_EQ(file_count(), 1u);
  EXPECT_EQ(std::filesystem::file_size(path), writer.file_bytes());
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensor(file.tensors()[0]).data<float>()[2 << 20], 2.0f);
}

TEST_F(GgufWriterFiles, AFailureLeavesTheOldFile) {
  const auto path = folder_ / "m.gguf";
  std::ofstream(path) << "old";
  GgufWriter writer(Metadata("in"));
  writer.add_tensor("t", DType::kF32, {4}, [](ByteSink&) { fail(Errc::kCancelled, "stop"); });
  EXPECT_THROW(writer.write(path), Error);
  EXPECT_EQ(file_count(), 1u);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "old");
  EXPECT_THROW(writer.write(folder_ / "none" / "m.gguf"), Error);
}

TEST(GgufWriter, RefusesWhatGgufCannotHold) {
  GgufWriter writer(Metadata("in"));
  const auto nothing = [](ByteSink&) {};
  writer.add_tensor("a", DType::kF32, {1}, nothing);
  EXPECT_THROW(writer.add_tensor("a", DType::kF32, {1}, nothing), Error);
  EXPECT_THROW(writer.add_tensor("b", DType::kU8, {1}, nothing), Error);
  EXPECT_THROW(writer.add_tensor("c", DType::kQ4_0, {2, 16}, nothing), Error);
  EXPECT_THROW(writer.add_tensor("d", DType::kF32, {0}, nothing), Error);
  EXPECT_THROW(writer.add_tensor("", DType::kF32, {1}, nothing), Error);
  EXPECT_THROW(writer.add_tensor("e", DType::kF32, {1, 1, 1, 1, 1}, nothing), Error);
}

}  // namespace
}  // namespace butterfly::model
