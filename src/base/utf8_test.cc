#include "base/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace butterfly {
namespace {

TEST(Utf8, LengthOfTheFirstCharacter) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa4x"), 2u);
  EXPECT_EQ(utf8_length("\xe2\x96\x81"), 3u);
  EXPECT_EQ(utf8_length("\xf0\x9f\xa6\x99"), 4u);
  EXPECT_EQ(utf8_length("\xc3"), 0u);          // cut
  EXPECT_EQ(utf8_length("\xe2\x96"), 0u);      // cut
  EXPECT_EQ(utf8_length("\xe2 x"), 0u);        // no continuation
  EXPECT_EQ(utf8_length("\x80"), 0u);          // continuation alone
  EXPECT_EQ(utf8_length("\xc0\x80"), 0u);      // overlong
  EXPECT_EQ(utf8_length("\xe0\x80\x80"), 0u);  // overlong
  EXPECT_EQ(utf8_length("\xed\xa0\x80"), 0u);  // surrogate
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80"), 0u);
  EXPECT_EQ(utf8_length("\xff"), 0u);
}

TEST(Utf8, HoldsBackOnlyWhatCanBecomeACharacter) {
  EXPECT_EQ(utf8_whole_bytes(""), 0u);
  EXPECT_EQ(utf8_whole_bytes("abc"), 3u);
  EXPECT_EQ(utf8_whole_bytes("a\xf0\x9f\xa6"), 1u);
  EXPECT_EQ(utf8_whole_bytes("a\xf0"), 1u);
  EXPECT_EQ(utf8_whole_bytes("a\xf0\x9f\xa6\x99"), 5u);
  EXPECT_EQ(utf8_whole_bytes("a\xe0\x80"), 3u);  // overlong: can never be completed
  EXPECT_EQ(utf8_whole_bytes("\x80\x80\x80"), 3u);
  EXPECT_EQ(utf8_whole_bytes("\xff"), 1u);
}

TEST(Utf8, ReplacesInvalidBytes) {
  EXPECT_EQ(utf8_replace_invalid("a\xff\xc3\xa4\xe2\x96"), "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd");
}

RC_GTEST_PROP(Utf8, ReplacedTextIsValid, (const std::string& text)) {
  std::string valid = utf8_replace_invalid(text);
  RC_ASSERT(utf8_replace_invalid(valid) == valid);
  RC_ASSERT(utf8_whole_bytes(valid) == valid.size());
}

}  // namespace
}  // namespace butterfly
