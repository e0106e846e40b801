// For tests: small vocabularies, masks by trying every token, texts followed byte by byte.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "model/grammar/json_constraint.h"
#include "model/grammar/schema_loader.h"

namespace butterfly::model::grammar {

// Numbers that depend on the seed alone.
struct Draws {
  uint64_t seed = 0, index = 0;
  size_t below(size_t end) { return random_u64(seed, 0, index++) % end; }
};

// Every byte, the last token the end, and between them what tempts a mask: pieces that cross the borders of
// strings, escapes and parts of characters.
inline std::shared_ptr<const TokenIndex> small_vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\"a",
                            "\":",
                            "\": ",
                            "\",",
                            "\"}",
                            "\"},",
                            "\"]",
                            "{\"",
                            "[\"",
                            "[[",
                            "]]",
                            "}}",
                            "{}",
                            "[]",
                            "\":\"",
                            "\",\"",
                            "\": \"",
                            "\", \"",
                            ", \"",
                            ",\n",
                            "\n  ",
                            "\n    \"",
                            "  ",
                            "    ",
                            "name",
                            "na",
                            "me\"",
                            "me\":",
                            "id",
                            "id\"",
                            "id\":",
                            "age",
                            "ab",
                            "abc",
                            "abcd",
                            "a\"",
                            "b\",",
                            "aa",
                            "aaaa",
                            "xyz",
                            "true",
                            "tru",
                            "ue",
                            "false",
                            "null",
                            "nul",
                            "l,",
                            "e}",
                            "12",
                            "123",
                            "-1",
                            "0.5",
                            "1e5",
                            ".0",
                            "00",
                            "99}",
                            "7,",
                            "5]",
                            "\\n",
                            "\\\"",
                            "\\u",
                            "\\u00",
                            "\\u0061",
                            "61",
                            "\\ud83d",
                            "\\ude00",
                            "a\\",
                            "\\\\",
                            "\xc3",
                            "\xc3\xa9",
                            "\xe2\x82",
                            "\xac",
                            "\xe2\x82\xac",
                            "\xf0\x9f\x98",
                            "\x80\"",
                            "<tool",
                            "_call>",
                            "<tool_call>\n",
                            "\n</tool_call>",
                            "</",
                            "hello",
                            " world",
                            "foo",
                            "bar",
                            "fo",
                            "o\"",
                            "ba",
                            "r\": ",
                            "2024-",
                            "01-01",
                            "T00",
                            "@",
                            ".com",
                            "a@b.c",
                            "<",
                            "<t",
                            "x<tool_call>\n{",
                            "- ",
                            "\n- "})
    pieces.emplace_back(piece);
  pieces.emplace_back("</s>");
  const auto end = static_cast<uint32_t>(pieces.size() - 1);
  return std::make_shared<const TokenIndex>(std::move(pieces), std::vector<uint32_t>{end});
}

inline std::shared_ptr<const CompiledGrammar> compile_schema(std::string_view schema,
                                                             std::shared_ptr<const TokenIndex> index,
                                                             JsonEnvelope envelope = {}) {
  auto matcher = std::make_shared<const JsonMatcher>(SchemaSets(load_schema(schema)), std::move(envelope));
  return json_grammar(
      std::make_shared<const JsonMasker>(std::move(matcher), index, std::make_shared<TextTokenCache>(index)));
}

// The text from the start, byte by byte: -1 if it is whole, else the number of bytes that fit (all of them: a
// beginning).
inline int follow(const JsonMatcher& matcher, std::string_view text) {
  JsonState state = matcher.start();
  for (size_t i = 0; i < text.size(); ++i)
    if (!matcher.step(state, static_cast<uint8_t>(text[i]))) return static_cast<int>(i);
  return matcher.can_end(state) ? -1 : static_cast<int>(text.size());
}

inline bool accepts_json(std::string_view schema, std::string_view text) {
  return follow(JsonMatcher(SchemaSets(load_schema(schema))), text) < 0;
}

// With the vocabulary's bytes a text can be fed as single-byte tokens.
inline bool accepts_text(const CompiledGrammar& grammar, std::string_view text) {
  const auto constraint = grammar.start();
  for (const char c : text)
    if (!constraint->accept(static_cast<uint8_t>(c))) return false;
  return constraint->can_end();
}

// The mask by definition: each token is tried on a copy.
inline TokenBits mask_by_trying(const TokenConstraint& constraint, const TokenIndex& index) {
  TokenBits bits(mask_words(index.vocab_size()), 0);
  for (uint32_t token = 0; token < index.vocab_size(); ++token) {
    if (index.ends_text(token) ? constraint.can_end()
                               : constraint.clone()->accept(static_cast<int32_t>(token)))
      set_bit(bits, token);
  }
  return bits;
}

inline TokenBits mask_of(TokenConstraint& constraint, const TokenIndex& index) {
  TokenBits bits(mask_words(index.vocab_size()), ~uint64_t{0});
  constraint.mask(bits);
  return bits;
}

inline std::vector<uint32_t> tokens_of(const TokenBits& bits) {
  std::vector<uint32_t> tokens;
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint64_t word = bits[w]; word != 0; word &= word - 1)
      tokens.push_back(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(word))));
  return tokens;
}

}  // namespace butterfly::model::grammar
