#include "model/metadata/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::model {
namespace {

template <typename Fn>
Error error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(Errc::kOk, "");
}

TEST(Metadata, MissingKeyNamesFileKeyAndType) {
  const Metadata metadata("m.gguf");
  const Error error = error_of([&] { (void)metadata.u32("llama.block_count"); });
  EXPECT_EQ(error.code(), Errc::kNotFound);
  EXPECT_STREQ(error.what(), "m.gguf: key llama.block_count: expected u32, found no such key");
}

TEST(Metadata, WrongTypeNamesBoth) {
  Metadata metadata("m.gguf");
  metadata.add("llama.block_count", std::string("many"));
  metadata.add("n", int32_t{-4});
  metadata.add("s", i32_array({1}));
  EXPECT_STREQ(error_of([&] { (void)metadata.u32("llama.block_count"); }).what(),
               "m.gguf: key llama.block_count: expected u32, found string");
  EXPECT_STREQ(error_of([&] { (void)metadata.u32_or("n", 1); }).what(),
               "m.gguf: key n: expected u32, found i32 -4");
  EXPECT_STREQ(error_of([&] { (void)metadata.strings("s"); }).what(),
               "m.gguf: key s: expected array of string, found array of i32");
  EXPECT_STREQ(error_of([&] { (void)metadata.boolean("n"); }).what(),
               "m.gguf: key n: expected bool, found i32 -4");
}

TEST(Metadata, IntegersOfAnyWidthThatFit) {
  Metadata metadata("m");
  metadata.add("u8", uint8_t{7});
  metadata.add("i64", int64_t{8});
  metadata.add("big", uint64_t{1} << 32);
  metadata.add("flag", true);
  EXPECT_EQ(metadata.u32("u8"), 7u);
  EXPECT_EQ(metadata.u32("i64"), 8u);
  EXPECT_EQ(metadata.u64("big"), uint64_t{1} << 32);
  EXPECT_EQ(error_of([&] { (void)metadata.u32("big"); }).code(), Errc::kCorrupt);
  EXPECT_EQ(error_of([&] { (void)metadata.u32("flag"); }).code(), Errc::kCorrupt);
  EXPECT_EQ(metadata.u32_or("none", 9), 9u);
}

TEST(Metadata, ArraysConvertWhereNothingIsLost) {
  Metadata metadata("m");
  metadata.add("u", MetaArray{MetaType::kU32, std::vector<uint32_t>{1, 2}});
  metadata.add("too_big", MetaArray{MetaType::kU32, std::vector<uint32_t>{1, 3000000000}});
  metadata.add("bools", MetaArray{MetaType::kBool, std::vector<uint8_t>{1}});
  metadata.add("d", MetaArray{MetaType::kF64, std::vector<double>{0.5, 2}});
  EXPECT_THAT(metadata.i32s("u"), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(error_of([&] { (void)metadata.i32s("too_big"); }).what(),
              ::testing::HasSubstr("3000000000 at index 1"));
  EXPECT_EQ(error_of([&] { (void)metadata.i32s("bools"); }).code(), Errc::kCorrupt);
  EXPECT_THAT(metadata.f32s("d"), ::testing::ElementsAre(0.5f, 2.0f));
}

TEST(Metadata, KeepsOrderAndRefusesDuplicates) {
  Metadata metadata("m");
  metadata.add("z", 1.0f);
  metadata.add("a", 2.0f);
  EXPECT_EQ(error_of([&] { metadata.add("z", 3.0f); }).code(), Errc::kCorrupt);
  metadata.set("z", 4.0f);
  ASSERT_EQ(metadata.entries().size(), 2u);
  EXPECT_EQ(metadata.entries()[0].key, "z");
  EXPECT_EQ(metadata.f32("z"), 4.0f);
}

TEST(Metadata, TextForPeople) {
  EXPECT_EQ(meta_text(uint32_t{3}), "3");
  EXPECT_EQ(meta_text(true), "true");
  EXPECT_EQ(meta_text(std::string("x y")), "x y");
  EXPECT_EQ(meta_text(i32_array({1, 2, 3}), 2), "[1, 2, ... 3 in all]");
  EXPECT_EQ(meta_text(MetaArray{MetaType::kBool, std::vector<uint8_t>{0, 1}}), "[false, true]");
  EXPECT_EQ(meta_text(string_array({"a\n"})), "[\"a\\n\"]");
  EXPECT_EQ(meta_text(string_array({"\u2581the", "\xe2\x96", "\""})),
            "[\"\u2581the\", \"\\xe2\\x96\", \"\\\"\"]");
  EXPECT_EQ(meta_text(std::string("two\nlines\x1b[2J\xc2\x9b")), "two\nlines\\x1b[2J\\xc2\\x9b");
}

}  // namespace
}  // namespace butterfly::model
