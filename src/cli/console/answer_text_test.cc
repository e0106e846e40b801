#include "cli/console/answer_text.h"

#include <gtest/gtest.h>

namespace butterfly::cli {
namespace {

// What a terminal gets, whatever the pieces are: the same for all lengths of pieces.
std::string shown(const std::string& text, AnswerText::Options options) {
  std::string whole;
  for (size_t piece = 1; piece <= text.size() + 1; piece = piece * 2 + 1) {
    std::string out;
    AnswerText answer(options, [&](std::string_view part) { out += part; });
    for (size_t at = 0; at < text.size(); at += piece) answer.add(std::string_view(text).substr(at, piece));
    answer.finish();
    if (piece == 1) whole = out;
    EXPECT_EQ(out, whole) << "pieces of " << piece;
  }
  return whole;
}

std::string plain(const std::string& text, size_t width) {
  return shown(text, {.width = width, .colour = false});
}

// Codes as words, to be read.
std::string coloured(const std::string& text) {
  std::string out = shown(text, {.width = 40, .colour = true});
  const std::pair<std::string, std::string> words[] = {
      {"\x1b[0m", "</>"}, {"\x1b[1m", "<b>"}, {"\x1b[36m", "<c>"}, {"\x1b[1;35m", "<h>"}, {"\x1b[2m", "<f>"}};
  for (const auto& [code, word] : words)
    for (size_t at; (at = out.find(code)) != std::string::npos;) out.replace(at, code.size(), word);
  return out;
}

TEST(AnswerText, WrapsBetweenWords) {
  EXPECT_EQ(plain("one two three four", 10), "one two \nthree four");
  EXPECT_EQ(plain("one\n\ntwo", 10), "one\n\ntwo");
  EXPECT_EQ(plain("a fourteenletter", 8), "a \nfourteenletter") << "left to the terminal, and can be copied";
  EXPECT_EQ(plain("one two three four", 0), "one two three four");
}

TEST(AnswerText, KnowsHowWideCharactersAre) {
  EXPECT_EQ(plain("héé lló", 7), "héé lló");
  EXPECT_EQ(plain("日本語日本語", 8), "日本語日\n本語");
  EXPECT_EQ(plain("ab 😀😀 cd", 8), "ab 😀😀\ncd");
}

TEST(AnswerText, NothingSteersTheTerminal) {
  EXPECT_EQ(plain("a\x1b[2Jb\x07", 40), "a\xEF\xBF\xBD[2Jb\xEF\xBF\xBD");
  EXPECT_EQ(plain("a\xC2\x9B"
                  "2Jb",
                  40),
            "a\xEF\xBF\xBD"
            "2Jb");
  EXPECT_EQ(plain("a\xE2\x80\xAE"
                  "b",
                  40),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(plain("a\xFF"
                  "b",
                  40)
                .substr(0, 4),
            "a\xEF\xBF\xBD");
}

TEST(AnswerText, WithoutColoursMarksStay) {
  EXPECT_EQ(plain("# One\n**two** `three`\n```\nfour\n```\n", 40),
            "# One\n**two** `three`\n```\nfour\n```\n");
}

TEST(AnswerText, Colours) {
  EXPECT_EQ(coloured("a **b** c"), "a </><b>b</> c");
  EXPECT_EQ(coloured("use `x*y` now"), "use </><c>x*y</> now");
  EXPECT_EQ(coloured("# Head\ntext"), "</><h>Head</>\ntext");
  EXPECT_EQ(coloured("2 * 3 ** 4"), "2 * 3 ** 4");
  EXPECT_EQ(coloured("**never closed\nnext"), "</><b>never closed</>\nnext");
  EXPECT_EQ(coloured("#tag is no heading"), "#tag is no heading");
  EXPECT_EQ(coloured("**bold** begins"), "</><b>bold</> begins");
}

TEST(AnswerText, CodeIsNeitherWrappedNorMarked) {
  const std::string line(60, 'x');
  EXPECT_EQ(coloured("```cc\n" + line + " **y**\n```\nend"),
            "<f>```cc\n<c>" + line + " **y**\n<c><f>```</>\nend");
}

TEST(AnswerText, ItemsHang) {
  EXPECT_EQ(coloured("- one two three four five six seven eight nine ten"),
            "- one two three four five six seven \n  eight nine ten");
  EXPECT_EQ(coloured("12. one two three four five six seven eight"),
            "12. one two three four five six seven \n    eight");
}

}  // namespace
}  // namespace butterfly::cli
