#include "model/tokenizer/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/token_stream.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// The 256 bytes as ids 0 to 255, then the joints of `merges` in order, then "<|end|>" (control) and "<user>".
Metadata make_metadata(const std::vector<std::string>& merges, const std::string& pre = "gpt-2") {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(to_byte_letters(std::string(1, static_cast<char>(b))));
  for (std::string joint : merges) tokens.push_back(joint.erase(joint.find(' ', 1), 1));
  tokens.push_back("<|end|>");
  tokens.push_back("<user>");
  std::vector<int32_t> types(tokens.size(), 1);
  types[types.size() - 2] = 3;
  types[types.size() - 1] = 4;
  Metadata metadata("test.gguf");
  metadata.add("tokenizer.ggml.model", std::string("gpt2"));
  metadata.add("tokenizer.ggml.pre", pre);
  metadata.add("tokenizer.ggml.tokens", string_array(tokens));
  metadata.add("tokenizer.ggml.token_type", i32_array(types));
  metadata.add("tokenizer.ggml.merges", string_array(merges));
  return metadata;
}

TEST(Bpe, FirstMergeFirstThenLeftmost) {
  const auto t = make_tokenizer(make_metadata({"b a", "a b", "a a", "ab a"}));
  EXPECT_THAT(t->encode("aba"), ElementsAre('a', 256));         // "b a" is before "a b"
  EXPECT_THAT(t->encode("aaa"), ElementsAre(258, 'a'));         // of equal pairs the left one
  EXPECT_THAT(t->encode("ab ab"), ElementsAre(257, ' ', 257));  // no merge over the edge of a word
  EXPECT_THAT(t->encode(""), ElementsAre());
}

TEST(Bpe, WordsThatAreTokensButNotByTheirMerges) {
  // "ab" then "c" is not in the list, so "abc" (256 + 2) is out of reach, except where merges are ignored.
  std::vector<std::string> merges = {"a b", "b c", "a bc"};
  EXPECT_THAT(make_tokenizer(make_metadata(merges))->encode("abc abc"), ElementsAre(256, 'c', ' ', 256, 'c'));
  const auto ignoring = make_tokenizer(make_metadata(merges, "llama-bpe"));
  EXPECT_THAT(ignoring->encode("abc", {.add_bos = false}), ElementsAre(258));
}

TEST(Bpe, ControlTokensOnlyWhenAsked) {
  const auto t = make_tokenizer(make_metadata({"< |", "<| end", "e n", "en d", "| >", "<|end |>"}));
  const auto control = static_cast<int32_t>(t->vocab_size() - 2), user = control + 1;
  EXPECT_THAT(t->encode("<|end|>"), ::testing::Not(::testing::Contains(control)));
  EXPECT_THAT(t->encode("a<|end|>b", {.parse_special = true}), ElementsAre('a', control, 'b'));
  EXPECT_THAT(t->encode("a<user>"), ElementsAre('a', user));
  EXPECT_EQ(t->decode(Ids{'a', control, user}), "a<user>");
  EXPECT_EQ(t->decode(Ids{'a', control}, {.show_special = true}), "a<|end|>");
}

TEST(Bpe, TokenFlagsTakeTheSpacesAround) {
  Metadata metadata = make_metadata({});
  std::vector<int32_t> flags(258, 0);
  flags[256] = kStripRight;
  flags[257] = kStripLeft | kSingleWord;
  metadata.add(std::string(kFlagsKey), i32_array(flags));
  const auto t = make_tokenizer(metadata);
  const EncodeOptions whole{.parse_special = true};
  EXPECT_THAT(t->encode("a <|end|>  b", whole), ElementsAre('a', ' ', 256, 'b'));
  EXPECT_THAT(t->encode("a  <user> b", whole), ElementsAre('a', 257, ' ', 'b'));
  EXPECT_THAT(t->encode("a<user>", whole), ElementsAre('a', '<', 'u', 's', 'e', 'r', '>'));
}

TEST(Bpe, NfcOnlyWhereTheFileSaysSo) {
  const std::string decomposed = "e\u0301";
  Metadata metadata = make_metadata({});
  EXPECT_THAT(make_tokenizer(metadata)->encode(decomposed), ElementsAre('e', 0xcc, 0x81));
  metadata.add(std::string(kRulesKey), std::string("nfc"));
  EXPECT_THAT(make_tokenizer(metadata)->encode(decomposed), ElementsAre(0xc3, 0xa9));
  metadata.set(std::string(kRulesKey), std::string("nfd"));
  EXPECT_THROW(make_tokenizer(metadata), Error);
}

std::string make_error(const Metadata& metadata) {
  try {
    make_tokenizer(metadata);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Bpe, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(
      make_error(make_metadata({}, "martian")),
      HasSubstr("key tokenizer.ggml.pre: expected a known pre-tokenizer (gpt-2, llama-bpe, qwen2, ...), "
                "found 'martian'"));
  Metadata metadata = make_metadata({});
  metadata.set("tokenizer.ggml.merges", string_array({"a b", "ab"}));
  EXPECT_THAT(make_error(metadata),
              HasSubstr("merge 1: expected two texts with a space between, found 'ab'"));
}

// By the definition: look at all pairs, join the first of the best, again.
Ids merge_by_definition(const std::string& word, const std::vector<std::string>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.push_back(std::string(1, c));
  while (true) {
    size_t best_rank = merges.size(), best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      for (size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank] == parts[i] + " " + parts[i + 1]) {
          best_rank = rank;
          best = i;
        }
    if (best_rank == merges.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) {
    int32_t id = part[0];
    for (size_t rank = 0; rank < merges.size() && part.size() > 1; ++rank)
      if (std::string joint = merges[rank]; joint.erase(joint.find(' '), 1) == part) {
        id = 256 + static_cast<int32_t>(rank);
        break;
      }
    ids.push_back(id);
  }
  return ids;
}

RC_GTEST_PROP(Bpe, ScanAndHeapEqualTheDefinition, ()) {
  // Random merges of what is there already, no joint twice.
  std::vector<std::string> texts = {"a", "b", "c"}, merges;
  const auto count = *rc::gen::inRange(0, 12);
  for (int i = 0; i < count; ++i) {
    const std::string left = *rc::gen::elementOf(texts), right = *rc::gen::elementOf(texts);
    if (std::find(texts.begin(), texts.end(), left + right) != texts.end()) continue;
    merges.push_back(left + " " + right);
    texts.push_back(left + right);
  }
  const auto length = *rc::gen::inRange(1, 120);  // on both sides of the change from scan to heap
  const auto word = *rc::gen::container<std::string>(length, rc::gen::element('a', 'b', 'c'));
  const auto t = make_tokenizer(make_metadata(merges));
  RC_ASSERT(t->encode(word) == merge_by_definition(word, merges));
}

RC_GTEST_PROP(Bpe, AnyBytesComeBack, (const std::vector<unsigned char>& bytes)) {
  static const auto t = make_tokenizer(make_metadata({"a b", "\u0120 a", "\u00c3 \u00a9"}, "llama-bpe"));
  const std::string text(bytes.begin(), bytes.end());
  RC_ASSERT(t->decode(t->encode(text)) == text);
}

// Every row: the pieces are the text, whatever it is, and they are never empty.
RC_GTEST_PROP(PreTokenizers, PiecesAreTheText, ()) {
  static const auto all = [] {
    std::vector<std::unique_ptr<PreTokenizer>> result;
    for (const PreTokenizerRow& row : pre_tokenizer_rows())
      for (const bool original : {false, true})
        result.push_back(std::make_unique<PreTokenizer>(row, original));
    return result;
  }();
  std::string text;
  const auto length = *rc::gen::inRange(0, 40);
  for (int i = 0; i < length; ++i) {
    if (*rc::gen::inRange(0, 10) == 0)
      text += static_cast<char>(*rc::gen::inRange(0, 256));  // mostly no UTF-8
    else
      append_utf8(*rc::gen::element<uint32_t>('a', 'B', 'z', '1', '9', ' ', ' ', '\n', '\r', '\t', '\'', 's',
                                              '.', ',', '/', '-', 0xa0, 0xe9, 0xc9, 0x3b1, 0x391, 0x301,
                                              0x4e2d, 0x3042, 0xac00, 0x661, 0xbd, 0x3000, 0x2028, 0x180e,
                                              0x1f999, 0x964, 0x5d0, 0x17f),
                  text);
  }
  for (const auto& pre : all) {
    std::string together;
    PreTokenizer::Session(*pre).split(text, [&](std::string_view piece) {
      RC_ASSERT(!piece.empty());
      together += piece;
    });
    RC_ASSERT(together == text);
  }
}

std::vector<std::string> cut(const char* name, std::string_view text, bool original = false) {
  const PreTokenizerRow* row = find_pre_tokenizer(name);
  if (!row) return {"unknown"};
  const PreTokenizer pre(*row, original);
  std::vector<std::string> pieces;
  PreTokenizer::Session(pre).split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(PreTokenizers, CutAsTheirModelsDo) {
  EXPECT_THAT(cut("gpt-2", "I'll pay  12345!!\n\nOK"),
              ElementsAre("I", "'ll", " pay", " ", " 12345", "!!", "\n", "\n", "OK"));
  EXPECT_THAT(cut("llama-bpe", "I'LL pay  12345!!\n\nOK"),
              ElementsAre("I", "'LL", " pay", " ", " ", "123", "45", "!!\n\n", "OK"));
  EXPECT_THAT(cut("qwen2", "12 x"), ElementsAre("1", "2", " x"));
  EXPECT_THAT(cut("starcoder", " 12 x"), ElementsAre(" ", "1", "2", " x"));
  EXPECT_THAT(cut("tekken", "HelloWorld"), ElementsAre("Hello", "World"));
  EXPECT_THAT(cut("superbpe", "a 1234567 b"), ElementsAre("a ", "1", "234", "567", " b"));
  EXPECT_THAT(cut("tiny_aya", "1234567 12ab"), ElementsAre("1", "234", "567", " ", "12", "ab"));
  EXPECT_THAT(cut("deepseek-llm", "ab  \n 12   "), ElementsAre("ab", "  ", "\n", " ", "12", "   "));
  EXPECT_THAT(cut("deepseek-v3", "a 1234\u4e2d\u6587"), ElementsAre("a", " ", "123", "4", "\u4e2d\u6587"));
  EXPECT_THAT(cut("kimi-k2", "\u4e2d\u6587ab"), ElementsAre("\u4e2d\u6587", "ab"));
  // U+180E is no white space, although PCRE2's own \s has it.
  EXPECT_THAT(cut("gpt-2", "\u180e "), ElementsAre("\u180e", " "));
  // llama.cpp takes letters beyond ASCII for both cases; the models' own expression knows better.
  EXPECT_THAT(cut("gpt-4o", "ab\u00c9t\u00e9"), ElementsAre("ab\u00c9t\u00e9"));
  EXPECT_THAT(cut("gpt-4o", "ab\u00c9t\u00e9", true), ElementsAre("ab", "\u00c9t\u00e9"));
}

TEST(PreTokenizers, NamesAreThereOnce) {
  std::vector<std::string_view> names;
  for (const PreTokenizerRow& row : pre_tokenizer_rows())
    names.insert(names.end(), row.names.begin(), row.names.end());
  EXPECT_GT(names.size(), 70u);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(ByteLevel, LettersAndBytes) {
  EXPECT_EQ(to_byte_letters(" the\n"), "\u0120the\u010a");
  EXPECT_EQ(from_byte_letters("\u0120the\u010a"), " the\n");
  EXPECT_EQ(from_byte_letters("\u4e2d"), std::nullopt);
  EXPECT_EQ(from_byte_letters(" "), std::nullopt);  // a space is written as a letter
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  EXPECT_EQ(from_byte_letters(to_byte_letters(all)), all);
}

}  // namespace
}  // namespace butterfly::model
