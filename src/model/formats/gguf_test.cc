#include "model/formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/testing/gguf_test_bytes.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::parse_error;
using testing::RawBytes;
using testing::small_gguf;

TEST(Gguf, ReadsEveryTypeOfValue) {
  const auto bytes = small_gguf();
  const GgufFile file = GgufFile::parse(bytes, "small");
  EXPECT_EQ(file.version(), 3u);
  const Metadata& m = file.metadata();
  EXPECT_EQ(m.string("general.architecture"), "llama");
  EXPECT_EQ(std::get<uint8_t>(*m.find("t.u8")), 200);
  EXPECT_EQ(std::get<int8_t>(*m.find("t.i8")), -100);
  EXPECT_EQ(std::get<uint16_t>(*m.find("t.u16")), 60000);
  EXPECT_EQ(std::get<int16_t>(*m.find("t.i16")), -30000);
  EXPECT_EQ(m.u32("t.u32"), 4000000000u);
  EXPECT_EQ(std::get<int32_t>(*m.find("t.i32")), -2000000000);
  EXPECT_EQ(m.f32("t.f32"), 1.5f);
  EXPECT_TRUE(m.boolean("t.bool"));
  EXPECT_EQ(m.u64("t.u64"), uint64_t{1} << 60);
  EXPECT_EQ(std::get<int64_t>(*m.find("t.i64")), -(int64_t{1} << 60));
  EXPECT_EQ(std::get<double>(*m.find("t.f64")), 0.1);
  EXPECT_THAT(m.strings("t.strings"), ElementsAre("one", "", "three\xff"));
  EXPECT_THAT(m.i32s("t.i32s"), ElementsAre(1, -2, 3));
  const auto& nested = std::get<MetaArray>(*m.find("t.nested"));
  EXPECT_EQ(nested,
            (MetaArray{MetaType::kArray, std::vector<MetaArray>{f32_array({1, 2}), string_array({"deep"})}}));
}

TEST(Gguf, TensorsAreViewsOfTheFile) {
  const auto bytes = small_gguf();
  const GgufFile file = GgufFile::parse(bytes, "small");
  ASSERT_EQ(file.tensors().size(), 3u);
  const GgufTensor& b = file.tensors()[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.shape, (Shape{2, 32}));
  EXPECT_EQ(b.bytes, 68u);
  EXPECT_EQ(b.offset % 32, 0u);
  const Tensor tensor = file.tensor(b);
  EXPECT_EQ(tensor.dtype(), DType::kQ8_0);
  EXPECT_EQ(tensor.raw(), bytes.data() + b.offset);
  EXPECT_EQ(std::to_integer<int>(tensor.raw()[67]), 50 + 67);
}

TEST(Gguf, ReadsVersion2) {
  RawBytes raw;
  raw.header(1, 1, 2).key("k", MetaType::kU32).put(uint32_t{5}).tensor("t", {3, 2}, 0, 0).pad().zeros(24);
  const GgufFile file = GgufFile::parse(raw.bytes, "v2");
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.tensors()[0].shape, (Shape{2, 3}));
}

TEST(Gguf, AlignmentKeyMovesTheData) {
  RawBytes raw;
  raw.header(1, 1).key("general.alignment", MetaType::kU32).put(uint32_t{256});
  raw.tensor("t", {2}, 0, 0).pad(256).zeros(8);
  EXPECT_EQ(GgufFile::parse(raw.bytes, "f").data_offset(), 256u);
}

TEST(Gguf, RefusesOtherFilesInWords) {
  const auto error = [](std::string_view text) { return parse_error(RawBytes().text(text).zeros(64).bytes); };
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\noid"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(error("PK\x03\x04"), HasSubstr("zip archive (a PyTorch checkpoint?)"));
  EXPECT_THAT(error(std::string_view("\x40\0\0\0\0\0\0\0{\"a\"", 12)), HasSubstr("safetensors"));
  EXPECT_THAT(error("tjgg"), HasSubstr("before GGUF"));
  EXPECT_THAT(error("<!DOCTYPE html>"), HasSubstr("web page"));
  EXPECT_THAT(error(""), HasSubstr("zero bytes"));
  EXPECT_THAT(error("abcd"), HasSubstr("first bytes 61 62 63 64"));
  EXPECT_THAT(parse_error({}), HasSubstr("f.gguf: magic: expected 'GGUF', found an empty file"));
  EXPECT_THAT(parse_error(RawBytes().text("GGUF").put(uint32_t{0x03000000}).zeros(64).bytes),
              HasSubstr("big-endian"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 0, 1).bytes), HasSubstr("version: expected 2 or 3, found 1"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 0, 77).bytes), HasSubstr("found 77"));
}

TEST(Gguf, CountsAreCheckedAgainstTheFileBeforeMemoryIsTaken) {
  EXPECT_THAT(parse_error(RawBytes().header(0, UINT64_MAX).bytes),
              HasSubstr("keys do not fit into the 0 bytes"));
  EXPECT_THAT(parse_error(RawBytes().header(UINT64_MAX, 0).zeros(40).bytes), HasSubstr("tensors do not fit"));
  RawBytes strings;
  strings.header(0, 1).key("k", MetaType::kArray).put(uint32_t{8}).put(uint64_t{1} << 60).zeros(100);
  EXPECT_THAT(parse_error(strings.bytes),
              HasSubstr("f.gguf: key k: array of string: 1152921504606846976 elements"));
  RawBytes doubles;
  doubles.header(0, 1).key("k", MetaType::kArray).put(uint32_t{12}).put(uint64_t{50}).zeros(100);
  EXPECT_THAT(parse_error(doubles.bytes), HasSubstr("expected 400 bytes, found 100"));
  RawBytes string;
  string.header(0, 1).key("k", MetaType::kString).put(UINT64_MAX).zeros(100);
  EXPECT_THAT(parse_error(string.bytes), HasSubstr("found a length of 18446744073709551615"));
}

TEST(Gguf, DepthIsBounded) {
  RawBytes raw;
  raw.header(0, 1).key("k", MetaType::kArray);
  for (int i = 0; i < 1000; ++i) raw.put(uint32_t{9}).put(uint64_t{1});
  EXPECT_THAT(parse_error(raw.bytes), HasSubstr("expected at most 8 inside each other"));
}

TEST(Gguf, BadKeys) {
  RawBytes twice;
  twice.header(0, 2);
  for (int i = 0; i < 2; ++i) twice.key("same", MetaType::kU8).put(uint8_t{1});
  EXPECT_THAT(parse_error(twice.bytes), HasSubstr("f.gguf: key same: expected once, found twice"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 1).key("", MetaType::kU8).put(uint8_t{1}).zeros(9).bytes),
              HasSubstr("key 1 of 1: name: expected at least one byte"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 1).key("k", MetaType{13}).zeros(9).bytes),
              HasSubstr("value type: expected 0 to 12, found 13"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 1).key("k", MetaType::kBool).put(uint8_t{2}).bytes),
              HasSubstr("bool: expected 0 or 1, found 2"));
  EXPECT_THAT(parse_error(RawBytes().header(0, 1).key("\x1b[2J", MetaType::kBool).put(uint8_t{2}).bytes),
              HasSubstr("key \\x1b[2J"));
}

TEST(Gguf, BadAlignment) {
  for (const uint32_t bad : {0u, 1u, 4u, 24u, 33u, 1u << 25}) {
    RawBytes raw;
    raw.header(0, 1).key("general.alignment", MetaType::kU32).put(bad);
    EXPECT_THAT(parse_error(raw.bytes), HasSubstr("key general.alignment: expected a power of two")) << bad;
  }
  RawBytes text;
  text.header(0, 1).key("general.alignment", MetaType::kString).string("32");
  EXPECT_THAT(parse_error(text.bytes), HasSubstr("key general.alignment: expected u32, found string"));
}

std::string tensor_error(std::vector<uint64_t> sizes, uint32_t type, uint64_t offset) {
  return parse_error(
      RawBytes().header(1, 0).tensor("w", std::move(sizes), type, offset).pad().zeros(256).bytes);
}

TEST(Gguf, BadTensors) {
  EXPECT_EQ(tensor_error({8, 8}, 0, 0), "");
  EXPECT_THAT(tensor_error({8, 9}, 0, 0), HasSubstr("tensor w: ends at byte 384, the file has 352"));
  EXPECT_THAT(tensor_error({8}, 0, 7), HasSubstr("tensor w: offset: expected a multiple of 32, found 7"));
  EXPECT_THAT(tensor_error({8}, 0, UINT64_MAX - 31), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(tensor_error({}, 0, 0), HasSubstr("rank: expected 1 to 4, found 0"));
  EXPECT_THAT(tensor_error({1, 1, 1, 1, 1}, 0, 0), HasSubstr("rank: expected 1 to 4, found 5"));
  EXPECT_THAT(tensor_error({8, 0}, 0, 0), HasSubstr("size 1: expected 1 to 2^63 - 1, found 0"));
  EXPECT_THAT(tensor_error({UINT64_MAX}, 0, 0), HasSubstr("size 0: expected 1"));
  EXPECT_THAT(tensor_error({1u << 31, 1u << 31, 1u << 31}, 0, 0), HasSubstr("does not fit into 63 bits"));
  EXPECT_THAT(tensor_error({uint64_t{1} << 62}, 0, 0), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(tensor_error({33}, 8, 0), HasSubstr("row of 33 values: Q8_0 needs a multiple of 32"));
  EXPECT_THAT(tensor_error({16, 2}, 8, 0), HasSubstr("row of 16 values"));
  EXPECT_THAT(tensor_error({96}, 40, 0), HasSubstr("row of 96 values: NVFP4 needs a multiple of 64"));
}

TEST(Gguf, UnknownTypesAreNamed) {
  EXPECT_THAT(tensor_error({8}, 9, 0), HasSubstr("tensor w: type 9 (Q8_1) cannot be read by this build"));
  EXPECT_THAT(tensor_error({8}, 4, 0), HasSubstr("removed from ggml"));
  EXPECT_THAT(tensor_error({8}, 12345, 0), HasSubstr("expected a ggml type number, found 12345"));
  EXPECT_EQ(ggml_type_name(12), "Q4_K");
}

TEST(Gguf, TensorsMayNotShareBytesOrNames) {
  RawBytes overlap;
  overlap.header(3, 0)
      .tensor("a", {8}, 0, 64)
      .tensor("b", {24}, 0, 0)
      .tensor("c", {8}, 0, 96)
      .pad()
      .zeros(256);
  EXPECT_THAT(parse_error(overlap.bytes),
              HasSubstr("tensor a: begins at byte 192, inside tensor b (bytes 128 to 224)"));
  RawBytes twice;
  twice.header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad().zeros(256);
  EXPECT_THAT(parse_error(twice.bytes), HasSubstr("tensor a: expected once, found twice"));
}

}  // namespace
}  // namespace butterfly::model
