// Cuts a template into texts and the tokens of its tags; white space control is done here.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::model::chat_template {

enum class TokenKind {
  kText,
  kOutputBegin,
  kOutputEnd,
  kTagBegin,
  kTagEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string: what it means, without quotes
  int line;

  bool is(TokenKind wanted, std::string_view words) const { return kind == wanted && text == words; }
  bool is_operator(std::string_view words) const { return is(TokenKind::kOperator, words); }
  bool is_name(std::string_view words) const { return is(TokenKind::kName, words); }
};

// With trim_blocks and lstrip_blocks, and without the newline at the end, as transformers sets Jinja up.
std::vector<Token> tokenize(std::string_view source);

}  // namespace butterfly::model::chat_template
