#include "model/tokenizer/spm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "base/utf8.h"
#include "model/tokenizer/token_stream.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Piece {
  std::string text;
  float score = 0;
  TokenType type = TokenType::kNormal;
};

// <unk> <s> </s>, 256 bytes from id 3, then `pieces` from id 259.
Metadata make_metadata(const std::vector<Piece>& pieces, bool bytes = true) {
  std::vector<Piece> all = {
      {"<unk>", 0, TokenType::kUnknown}, {"<s>", 0, TokenType::kControl}, {"</s>", 0, TokenType::kControl}};
  for (int b = 0; b < 256 && bytes; ++b) all.push_back({fmt::format("<0x{:02X}>", b), 0, TokenType::kByte});
  all.insert(all.end(), pieces.begin(), pieces.end());
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const Piece& piece : all) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<int32_t>(piece.type));
  }
  Metadata metadata("test.gguf");
  metadata.add("tokenizer.ggml.model", std::string("llama"));
  metadata.add("tokenizer.ggml.tokens", string_array(texts));
  metadata.add("tokenizer.ggml.scores", f32_array(scores));
  metadata.add("tokenizer.ggml.token_type", i32_array(types));
  return metadata;
}

constexpr int32_t kFirst = 259;

TEST(Spm, HighestScoreFirstThenLeftmost) {
  const auto t = make_tokenizer(
      make_metadata({{"\u2581", -10}, {"a", -10}, {"b", -10}, {"ab", -2}, {"ba", -1}, {"aa", -3}}));
  const EncodeOptions plain{.add_bos = false};
  // "▁aba": "ba" is better than "ab".
  EXPECT_THAT(t->encode("aba", plain), ElementsAre(kFirst, kFirst + 1, kFirst + 4));
  // "▁aaa": of equal pairs the left one.
  EXPECT_THAT(t->encode("aaa", plain), ElementsAre(kFirst, kFirst + 5, kFirst + 1));
  EXPECT_THAT(t->encode("", plain), ElementsAre());
  EXPECT_THAT(t->encode(""), ElementsAre(1));
  EXPECT_THAT(t->encode("a", {.add_bos = true, .add_eos = true}), ElementsAre(1, kFirst, kFirst + 1, 2));
}

TEST(Spm, PiecesWhoseCharactersAreNoTokens) {
  // "x" and "y" exist only inside "xy"; alone they become bytes.
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1}, {"xy", -1}}));
  const EncodeOptions plain{.add_bos = false};
  EXPECT_THAT(t->encode("xyx", plain), ElementsAre(kFirst, kFirst + 1, 3 + 'x'));
  EXPECT_THAT(t->encode("yx", plain), ElementsAre(kFirst, 3 + 'y', 3 + 'x'));
}

TEST(Spm, PiecesThatAreNoValidText) {
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1},
                                               {"\xcf", -1},
                                               {"\xcf"
                                                "a",
                                                -1}}));
  const EncodeOptions plain{.add_bos = false};
  EXPECT_THAT(t->encode("\xcf", plain), ElementsAre(kFirst, kFirst + 1));
  EXPECT_THAT(t->encode("\xcf"
                        "a",
                        plain),
              ElementsAre(kFirst, kFirst + 2));
  EXPECT_THAT(t->encode("a", plain), ElementsAre(kFirst, 3 + 'a'));
}

TEST(Spm, ControlTokensOnlyWhenAsked) {
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1}, {"<", -1}, {"s", -1}, {">", -1}, {"s>", -1}}));
  // Even though "<" and "s>" would join to the text of id 1.
  EXPECT_THAT(t->encode("<s>", {.add_bos = false}), ElementsAre(kFirst, kFirst + 1, kFirst + 4));
  EXPECT_THAT(t->encode("<s>s</s>", {.add_bos = false, .parse_special = true}),
              ElementsAre(1, kFirst, kFirst + 2, 2));
  EXPECT_THAT(t->encode("<0x41>", {.add_bos = false, .parse_special = true}),
              ::testing::Not(::testing::Contains(3 + 0x41)));
}

TEST(Spm, UserDefinedTokensAlwaysAndTheLongestWins) {
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1},
                                               {"<tool>", 0, TokenType::kUserDefined},
                                               {"<tool>!", 0, TokenType::kUserDefined},
                                               {"a", -1}}));
  EXPECT_THAT(t->encode("a<tool>a", {.add_bos = false}),
              ElementsAre(kFirst, kFirst + 3, kFirst + 1, kFirst,
                          kFirst + 3));  // a new space prefix, as in llama.cpp
  EXPECT_THAT(t->encode("<tool>!", {.add_bos = false}), ElementsAre(kFirst + 2));
  EXPECT_EQ(t->decode(std::vector<int32_t>{kFirst + 1}), "<tool>");
}

TEST(Spm, NoSpacePrefixWhenTheFileSaysSo) {
  Metadata metadata = make_metadata({{"\u2581", -1}, {"a", -1}});
  metadata.add("tokenizer.ggml.add_space_prefix", false);
  const auto t = make_tokenizer(metadata);
  EXPECT_THAT(t->encode("a a", {.add_bos = false}), ElementsAre(kFirst + 1, kFirst, kFirst + 1));
  EXPECT_EQ(t->decode(t->encode(" a")), " a");
}

TEST(Spm, UnknownCharactersWithoutByteTokens) {
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1}, {"a", -1}}, /*bytes=*/false));
  EXPECT_THAT(t->encode("axyax", {.add_bos = false}), ElementsAre(3, 4, 0, 4, 0));  // a run is one <unk>
  EXPECT_EQ(t->decode(std::vector<int32_t>{3, 4, 0, 4}), "aa");
  EXPECT_EQ(t->decode(std::vector<int32_t>{3, 4, 0, 4}, {.show_special = true}), "a<unk>a");
}

TEST(Spm, LongWordsTakeTheHeapAndGiveTheSame) {
  // Scores fall with length, so merges go up level by level; the word is long enough for the heap.
  std::vector<Piece> pieces = {{"\u2581", -100}, {"a", -100}, {"b", -100}};
  for (const char* text : {"ab", "ba", "aa", "abab", "bb", "abba", "aab"})
    pieces.push_back({text, -1.0f * pieces.size()});
  Metadata metadata = make_metadata(pieces);
  metadata.add("tokenizer.ggml.add_space_prefix", false);
  const auto t = make_tokenizer(metadata);
  const auto reference = [&](std::string_view text) {  // the definition, quadratic
    std::vector<std::string> symbols;
    for (const char c : text) symbols.emplace_back(1, c);
    while (true) {
      size_t best = symbols.size();
      float best_score = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        for (const Piece& piece : pieces)
          if (piece.text == symbols[i] + symbols[i + 1] &&
              (best == symbols.size() || piece.score > best_score)) {
            best = i;
            best_score = piece.score;
          }
      if (best == symbols.size()) return symbols;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
  };
  rc::check("equals the definition", [&] {
    const auto bits =
        *rc::gen::container<std::vector<bool>>(*rc::gen::inRange(0, 120), rc::gen::arbitrary<bool>());
    std::string text;
    for (const bool bit : bits) text += bit ? 'a' : 'b';
    std::vector<std::string> found;
    for (const int32_t id : t->encode(text, {.add_bos = false})) found.emplace_back(t->token_text(id));
    RC_ASSERT(found == reference(text));
  });
}

RC_GTEST_PROP(Spm, AnyBytesComeBack, ()) {
  static const auto t = make_tokenizer(make_metadata({{"\u2581", -1},
                                                      {"a", -9},
                                                      {"b", -9},
                                                      {"ab", -3},
                                                      {"\u2581a", -2},
                                                      {"\u00e4", -9},
                                                      {"\u00e4a", -5},
                                                      {"\xf0\x9f\xa6\x99", -4}}));
  const auto alphabet =
      rc::gen::weightedOneOf<char>({{3, rc::gen::arbitrary<char>()},
                                    {3, rc::gen::element('a', 'b', ' ')},
                                    {2, rc::gen::element('\xc3', '\xa4', '\xf0', '\x9f', '\xa6', '\x99')}});
  const auto text = *rc::gen::container<std::string>(alphabet);
  RC_PRE(text.find(std::string(kSpaceMark)) ==
         std::string::npos);  // the one text that SentencePiece cannot tell from a space
  const auto ids = t->encode(text, {.add_bos = true});
  RC_ASSERT(t->decode(ids) == text);
  TokenStream stream(*t, /*at_text_start=*/true);
  std::string streamed;
  std::vector<bool> inside(text.size() + 1);  // places inside a valid character
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(std::string_view(text).substr(at)), 1);
    for (size_t i = 1; i < length; ++i) inside[at + i] = true;
    at += length;
  }
  for (const int32_t id : ids) {
    streamed += stream.push(id);
    RC_ASSERT(!inside[streamed.size()]);
  }
  RC_ASSERT(streamed + stream.flush() == text);
}

TEST(Spm, StreamHoldsCutCharacters) {
  const auto t = make_tokenizer(make_metadata({{"\u2581", -1}, {"a", -1}}));
  TokenStream stream(*t);
  EXPECT_EQ(stream.push(3 + 0xf0), "");
  EXPECT_EQ(stream.push(3 + 0x9f), "");
  EXPECT_EQ(stream.push(3 + 0xa6), "");
  EXPECT_EQ(stream.push(3 + 0x99), "\xf0\x9f\xa6\x99");
  EXPECT_EQ(stream.push(kFirst), " ");  // not at the start of a text: the space is real
  EXPECT_EQ(stream.push(3 + 0xe2), "");
  EXPECT_EQ(stream.push(kFirst + 1),
            "\xe2"
            "a");  // can never become a character
  EXPECT_EQ(stream.push(3 + 0xe2), "");
  EXPECT_EQ(stream.flush(), "\xe2");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Spm, EndOfGeneration) {
  Metadata metadata =
      make_metadata({{"\u2581", -1}, {"<|im_end|>", 0, TokenType::kControl}, {"<|end|>", -5}});
  metadata.add("tokenizer.ggml.eot_token_id", uint32_t{5});
  const auto t = make_tokenizer(metadata);
  EXPECT_TRUE(t->is_end_of_generation(2));
  EXPECT_TRUE(t->is_end_of_generation(5));
  EXPECT_TRUE(t->is_end_of_generation(kFirst + 1));
  EXPECT_FALSE(t->is_end_of_generation(kFirst + 2));  // a normal piece that happens to look so
  EXPECT_FALSE(t->is_end_of_generation(1));
  EXPECT_EQ(t->eos(), 2);
  EXPECT_EQ(t->bos(), 1);
}

std::string make_error(const Metadata& metadata) {
  try {
    make_tokenizer(metadata);
    return "no Error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Spm, BadVocabulariesAreRefused) {
  const std::vector<Piece> pieces = {{"\u2581", -1}};
  Metadata scores = make_metadata(pieces);
  scores.set("tokenizer.ggml.scores", f32_array({1, 2}));
  EXPECT_THAT(make_error(scores),
              HasSubstr("scores: expected 260 elements as in tokenizer.ggml.tokens, found 2"));
  Metadata types = make_metadata(pieces);
  types.set("tokenizer.ggml.token_type", i32_array(std::vector<int32_t>(260, 9)));
  EXPECT_THAT(make_error(types), HasSubstr("token 0: expected a type from 0 to 6, found 9"));
  types.set("tokenizer.ggml.token_type", i32_array(std::vector<int32_t>(260, 6)));
  EXPECT_THAT(make_error(types), HasSubstr("token 0: expected a byte token <0x00> to <0xFF>, found <unk>"));
  Metadata nan = make_metadata({{"\u2581", std::numeric_limits<float>::quiet_NaN()}});
  EXPECT_THAT(make_error(nan), HasSubstr("token 259: expected a number, found nan"));
  Metadata bos = make_metadata(pieces);
  bos.set("tokenizer.ggml.bos_token_id", uint32_t{260});
  EXPECT_THAT(make_error(bos),
              HasSubstr("bos_token_id: expected an id below the vocabulary's 260, found 260"));
  Metadata size = make_metadata(pieces);
  size.set("llama.vocab_size", uint32_t{261});
  EXPECT_THAT(make_error(size), HasSubstr("key llama.vocab_size: expected 260"));
  EXPECT_THAT(make_error(make_metadata({{std::string(2000, 'x')}})),
              HasSubstr("token 259: expected at most 1024 bytes"));
  EXPECT_THAT(make_error(Metadata("m")), HasSubstr("key tokenizer.ggml.model"));
}

TEST(Spm, OtherTokenizersAreNamed) {
  Metadata metadata = make_metadata({});
  metadata.set("tokenizer.ggml.model", std::string("rwkv"));
  EXPECT_EQ(make_error(metadata), "test.gguf: not supported yet: tokenizer model 'rwkv' (RWKV trie)");
  metadata.set("tokenizer.ggml.model", std::string("martian"));
  EXPECT_THAT(make_error(metadata), HasSubstr("expected a known tokenizer model, found 'martian'"));
}

TEST(Spm, IdsOutsideTheVocabularyAreErrors) {
  const auto t = make_tokenizer(make_metadata({}));
  EXPECT_THROW((void)t->piece(-1), Error);
  EXPECT_THROW((void)t->piece(259), Error);
  EXPECT_THROW((void)t->decode(std::vector<int32_t>{999}), Error);
}

}  // namespace
}  // namespace butterfly::model
