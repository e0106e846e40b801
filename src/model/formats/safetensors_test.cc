#include "model/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "model/formats/model_file.h"

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;

// A file of this header and `data_bytes` bytes 0, 1, 2 ...
std::vector<std::byte> file_of(const std::string& header, size_t data_bytes) {
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  return bytes;
}

std::string error_of(const std::string& header, size_t data_bytes) {
  try {
    const auto bytes = file_of(header, data_bytes);
    SafetensorsFile::parse(bytes, "x.safetensors");
    return "no Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
    return error.what();
  }
}

TEST(Safetensors, ReadsNamesTypesShapesAndTexts) {
  const auto bytes = file_of(R"({"__metadata__":{"format":"pt"},
      "b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},
      "a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},
      "s":{"dtype":"I64","shape":[],"data_offsets":[12,20]},
      "none":{"dtype":"F32","shape":[3,0],"data_offsets":[12,12]}}   )",
                             20);
  const auto file = SafetensorsFile::parse(bytes, "x.safetensors");
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  EXPECT_EQ(file.tensors()[2].name, "none");
  EXPECT_FALSE(file.tensors()[2].dtype.has_value());
  ASSERT_EQ(file.texts().size(), 1u);
  EXPECT_EQ(file.texts()[0].second, "pt");
  const Tensor b = file.tensor(file.tensors()[1]);
  EXPECT_EQ(b.shape(), (Shape{2, 1}));
  EXPECT_EQ(std::to_integer<int>(b.raw()[0]), 4);
  EXPECT_EQ(file.tensor(file.tensors()[3]).count(), 1);
}

TEST(Safetensors, BytesThatAreNotAlignedAreCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const auto bytes = file_of(header + std::string((8 - header.size() % 8) % 8, ' '), 5);
  const auto file = SafetensorsFile::parse(bytes, "x");
  EXPECT_FALSE(file.aligned(file.tensors()[1]));
  const Tensor b = file.tensor(file.tensors()[1]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.raw()) % 4, 0u);
  EXPECT_EQ(std::to_integer<int>(b.raw()[3]), 4);
}

TEST(Safetensors, RefusesWhatDoesNotTile) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(error_of(two("[0,4]", "[4,8]"), 8), "no Error");
  EXPECT_EQ(error_of(two("[4,8]", "[0,4]"), 8), "no Error");
  EXPECT_THAT(error_of(two("[0,4]", "[5,9]"), 9), HasSubstr("tensor b: expected to begin at byte 4"));
  EXPECT_THAT(error_of(two("[0,4]", "[3,7]"), 7), HasSubstr("tensor b: expected to begin at byte 4"));
  EXPECT_THAT(error_of(two("[0,4]", "[0,4]"), 4), HasSubstr("expected to begin at byte 4"));
  EXPECT_THAT(error_of(two("[0,4]", "[4,8]"), 7),
              HasSubstr("expected 8 bytes of data after the header, found 7"));
  EXPECT_THAT(error_of(two("[0,4]", "[4,8]"), 9), HasSubstr("found 9"));
  EXPECT_THAT(error_of(two("[0,4]", "[4,9]"), 9),
              HasSubstr("4 values of U8 take 4 bytes, data_offsets give it 5"));
  EXPECT_THAT(error_of(two("[4,0]", "[4,8]"), 8), HasSubstr("expected begin <= end, found 4 and 0"));
  EXPECT_THAT(error_of(two("[18446744073709551612,18446744073709551615]", "[4,8]"), 8),
              HasSubstr("take 4 bytes"));
}

TEST(Safetensors, RefusesOddHeaders) {
  const auto entry = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const std::string shape = R"("dtype":"F32","shape":)", offsets = R"(,"data_offsets":[0,4])";
  EXPECT_THAT(error_of(entry(shape + "[4294967296,4294967296]" + offsets), 4), HasSubstr("62 bits"));
  EXPECT_THAT(error_of(entry(shape + "[0,4294967296,4294967296]" + offsets), 4), HasSubstr("62 bits"));
  EXPECT_THAT(error_of(entry(shape + "[4611686018427387904]" + offsets), 4),
              HasSubstr("data_offsets give it 4"));
  EXPECT_THAT(error_of(entry(shape + "[-1]" + offsets), 4), HasSubstr("a: shape: expected whole numbers"));
  EXPECT_THAT(error_of(entry(shape + "[1.5]" + offsets), 4), HasSubstr("found 1.5"));
  EXPECT_THAT(error_of(entry(shape + "[[1]]" + offsets), 4), HasSubstr("found an array"));
  EXPECT_THAT(error_of(entry(shape + "{}" + offsets), 4), HasSubstr("found an object"));
  EXPECT_THAT(error_of(entry(shape + "[1],\"data_offsets\":[0,4,8]"), 4), HasSubstr("expected 2 offsets"));
  EXPECT_THAT(error_of(entry(shape + "[1],\"data_offsets\":[0]"), 4),
              HasSubstr("expected 2 data_offsets, found 1"));
  EXPECT_THAT(error_of(entry(shape + "[1],\"shape\":[1]" + offsets), 4), HasSubstr("expected shape once"));
  EXPECT_THAT(error_of(entry("\"shape\":[1]" + offsets), 4), HasSubstr("expected dtype"));
  EXPECT_THAT(error_of(entry("\"dtype\":\"F32\"" + offsets), 4), HasSubstr("expected shape, found none"));
  EXPECT_THAT(error_of(entry(shape + "[1],\"more\":1" + offsets), 4), HasSubstr("found 'more'"));
  EXPECT_THAT(error_of(R"({"a":1})", 0), HasSubstr("a: expected an object, found 1"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"x":1}})", 0), HasSubstr("expected a string, found 1"));
  EXPECT_THAT(error_of("{", 0), HasSubstr("not JSON at byte"));
  EXPECT_THAT(error_of("{} x", 0), HasSubstr("not JSON at byte"));
  EXPECT_THAT(error_of(" {}", 0), HasSubstr("expected '{' first"));
  EXPECT_THAT(error_of("[]", 0), HasSubstr("expected '{' first"));
  const std::string one = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(error_of("{" + one + "}", 0), "no Error");
  EXPECT_THAT(error_of("{" + one + "," + one + "}", 0), HasSubstr("a: expected once, found twice"));
  EXPECT_THAT(error_of("{\"a\":" + std::string(100000, '['), 0),
              HasSubstr("expected an object, found an array"));
}

TEST(Safetensors, RefusesLengthsThatCannotBe) {
  const auto parse = [](std::vector<std::byte> bytes) -> std::string {
    try {
      SafetensorsFile::parse(bytes, "x");
      return "no Error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(parse({}), HasSubstr("length at byte 0: expected 8 bytes, found 0"));
  auto bytes = file_of("{}", 0);
  bytes[0] = std::byte{3};
  EXPECT_THAT(parse(bytes), HasSubstr("says 3 bytes, the file has 2 more"));
  bytes[4] = std::byte{1};
  EXPECT_THAT(parse(bytes), HasSubstr("expected at most 100000000 bytes, found 4294967299"));
}

TEST(Safetensors, FilesOfPublicRepositories) {
  const std::filesystem::path folder = shared_data("hostile");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const ModelFile file = open_model(folder / "all-dtypes.safetensors");
  EXPECT_EQ(file.format(), "safetensors");
  EXPECT_EQ(file.tensors().size(), 9u);
  EXPECT_EQ(file.tensor("f", {6}).dtype(), DType::kF32);
  EXPECT_EQ(file.find("H")->type_name(), "U16");
  try {
    file.tensor("d");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("tensor d: type F64 cannot be read"));
  }
  try {
    open_model(folder / "lfs-pointer.safetensors");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a Git LFS pointer"));
  }
}

}  // namespace
}  // namespace butterfly::model
