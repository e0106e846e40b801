#include "base/sha256.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "base/secret.h"
#include "base/sha256_stream.h"

namespace butterfly {
namespace {

TEST(Sha256, OfPublishedTexts) {
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string_view()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, OfBytesThatComeOneAfterTheOther) {
  Sha256Stream stream;
  EXPECT_EQ(stream.hex(), sha256_hex(std::string_view()));
  for (const std::string_view piece : {"ab", "", "c"}) stream.add(std::as_bytes(std::span(piece)));
  EXPECT_EQ(stream.hex(), sha256_hex(std::string_view("abc")));
  EXPECT_EQ(stream.hex(), sha256_hex(std::string_view("abc")));
}

TEST(Hex, ThereAndBack) {
  const std::byte bytes[] = {std::byte{0x00}, std::byte{0x9f}, std::byte{0xff}};
  EXPECT_EQ(to_hex(bytes), "009fff");
  std::byte back[3];
  EXPECT_TRUE(from_hex("009fff", back));
  EXPECT_TRUE(std::equal(std::begin(bytes), std::end(bytes), std::begin(back)));
  for (const char* bad : {"", "009ff", "009fff0", "009fFf", "009ffg", "0x9fff"})
    EXPECT_FALSE(from_hex(bad, back)) << bad;
}

TEST(Secret, RandomDigitsAndComparison) {
  EXPECT_TRUE(is_hex(random_hex(33), 33));
  EXPECT_NE(random_hex(32), random_hex(32));
  EXPECT_FALSE(is_hex("0G", 2));
  EXPECT_EQ(random_hex(0), "");
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_in_constant_time("abc", "abcd"));
}

}  // namespace
}  // namespace butterfly
