#include "model/tokenizer/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "base/error.h"
#include "model/tokenizer/word_piece.h"

namespace butterfly::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Piece {
  std::string text;
  float score = 0;
  TokenType type = TokenType::kNormal;
};

Metadata make_metadata(const std::string& model, const std::vector<Piece>& pieces) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const Piece& piece : pieces) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<int32_t>(piece.type));
  }
  Metadata metadata("test.gguf");
  metadata.add("tokenizer.ggml.model", model);
  metadata.add("tokenizer.ggml.tokens", string_array(texts));
  metadata.add("tokenizer.ggml.scores", f32_array(scores));
  metadata.add("tokenizer.ggml.token_type", i32_array(types));
  metadata.add("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.add("tokenizer.ggml.eos_token_id", uint32_t{1});
  return metadata;
}

const std::vector<Piece> kPieces = {{"<unk>", 0, TokenType::kUnknown},
                                    {"</s>", 0, TokenType::kControl},
                                    {"\u2581", -4},
                                    {"a", -3},
                                    {"b", -3},
                                    {"ab", -2},
                                    {"\u2581a", -2.5},
                                    {"ba", -1}};

TEST(Unigram, GreatestSum) {
  const auto t = make_tokenizer(make_metadata("t5", kPieces));
  const EncodeOptions plain{.add_eos = false};
  EXPECT_THAT(t->encode("aba"), ElementsAre(6, 7, 1));          // -3.5 beats "▁ ab a" at -9
  EXPECT_THAT(t->encode("bab", plain), ElementsAre(2, 7, 4));   // -8 beats "▁ b ab" at -9
  EXPECT_THAT(t->encode("a  a", plain), ElementsAre(6, 2, 6));  // spaces stay
  EXPECT_THAT(t->encode("axya", plain), ElementsAre(6, 0, 3));  // one unknown token for a run
  EXPECT_EQ(t->decode(t->encode("ab  ba")), "ab  ba");
  Metadata merging = make_metadata("t5", kPieces);
  merging.add("tokenizer.ggml.remove_extra_whitespaces", true);
  EXPECT_THAT(make_tokenizer(merging)->encode("  a   a  ", plain), ElementsAre(6, 6));
}

TEST(Unigram, BytesForUnknownCharacters) {
  std::vector<Piece> pieces = kPieces;
  for (int b = 0; b < 256; ++b) pieces.push_back({fmt::format("<0x{:02X}>", b), 0, TokenType::kByte});
  const auto t = make_tokenizer(make_metadata("t5", pieces));
  EXPECT_THAT(t->encode("a\u00e9", {.add_eos = false}), ElementsAre(6, 8 + 0xc3, 8 + 0xa9));
  const std::string odd = "a\xff\xc3 \u4e2d";
  EXPECT_EQ(t->decode(t->encode(odd)), odd);
}

// A trie of one key, "X" -> "a": root, the node of X, its leaf.
std::vector<uint8_t> one_key_map() {
  std::vector<uint32_t> trie(256, 0);
  trie[0] = 1u << 10;                          // children at 1 ^ label
  trie[1 ^ 'X'] = 'X' | 1u << 8 | 200u << 10;  // has a leaf, at its own place ^ 200
  trie[(1 ^ 'X') ^ 200] = 1u << 31;            // value 0
  std::vector<uint8_t> bytes(4 + trie.size() * 4);
  const auto size = static_cast<uint32_t>(trie.size() * 4);
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, trie.data(), size);
  bytes.push_back('a');
  bytes.push_back(0);
  return bytes;
}

TEST(Unigram, CharacterMap) {
  Metadata metadata = make_metadata("t5", kPieces);
  metadata.add("tokenizer.ggml.precompiled_charsmap", MetaArray{MetaType::kU8, one_key_map()});
  EXPECT_THAT(make_tokenizer(metadata)->encode("Xb", {.add_eos = false}), ElementsAre(6, 4));
  metadata.set("tokenizer.ggml.precompiled_charsmap",
               MetaArray{MetaType::kU8, std::vector<uint8_t>{9, 0, 0, 0, 1}});
  EXPECT_THROW(make_tokenizer(metadata), Error);
}

RC_GTEST_PROP(CharsMapProperty, AnyBytesAreSafe, (std::vector<uint8_t> bytes, const std::string& text)) {
  std::vector<uint8_t> map(4 + bytes.size() / 4 * 4);
  const auto size = static_cast<uint32_t>(map.size() - 4);
  std::memcpy(map.data(), &size, 4);
  std::copy_n(bytes.begin(), size, map.begin() + 4);
  map.push_back(0);
  try {
    (void)CharsMap(map, "test").find(text);
  } catch (const Error&) {
  }
}

TEST(WordPiece, WordsAndTheirParts) {
  Metadata metadata = make_metadata("bert", {{"[UNK]", 0, TokenType::kUnknown},
                                             {"[SEP]", 0, TokenType::kControl},
                                             {"[CLS]", 0, TokenType::kControl},
                                             {"\u2581un"},
                                             {"able"},
                                             {"aff"},
                                             {"\u2581,"},
                                             {"\u2581cafe"},
                                             {"\u2581\u4e2d"},
                                             {"\u2581$"}});
  metadata.add("tokenizer.ggml.bos_token_id", uint32_t{2});
  metadata.add("tokenizer.ggml.seperator_token_id", uint32_t{1});
  const auto t = make_tokenizer(metadata);
  EXPECT_THAT(t->encode("UNaffable, Caf\u00e9 xyz\u4e2d$"), ElementsAre(2, 3, 5, 4, 6, 7, 0, 8, 9, 1));
  EXPECT_THAT(t->encode("[SEP]", {.add_bos = false, .add_eos = false}),
              ::testing::Not(::testing::Contains(1)));
  EXPECT_EQ(t->decode(std::vector<int32_t>{2, 3, 5, 4, 6, 7, 1}), "unaffable , cafe");
  // Published files call [CLS] by its own key, and beside it perhaps something else BOS.
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{0});
  metadata.add("tokenizer.ggml.cls_token_id", uint32_t{2});
  EXPECT_THAT(make_tokenizer(metadata)->encode("un"), ElementsAre(2, 3, 1));
  metadata.set("tokenizer.ggml.normalizer.lowercase", false);
  EXPECT_THAT(make_tokenizer(metadata)->encode("UN un", {.add_bos = false, .add_eos = false}),
              ElementsAre(0, 3));
}

}  // namespace
}  // namespace butterfly::model
