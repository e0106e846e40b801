// Expressions of a template, in Jinja's order of precedence.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "model/chat_template/ast.h"
#include "model/chat_template/lexer.h"

namespace butterfly::model::chat_template {

// A position in the tokens and what both parsers do with it. One thread.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExprPtr expression() { return conditional(true); }
  // One expression, or several with commas: a tuple. It ends where a token of `ends` (names) stands.
  ExprPtr tuple(bool with_condition, std::initializer_list<std::string_view> ends = {});
  ExprPtr target(std::initializer_list<std::string_view> ends);
  // `name(...) | name ...` after a filter tag: the innermost filter has no operand.
  ExprPtr filters_without_operand();
  ExprPtr filters_of(ExprPtr operand);

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  void expect_kind(TokenKind kind, std::string_view text);
  [[noreturn]] void unexpected(std::string_view expected) const;

  // Counts nested brackets and statements.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> operands = {}) const;
  ExprPtr finish(ExprPtr node) const;  // counts its height
  ExprPtr conditional(bool with_condition);
  ExprPtr or_();
  ExprPtr and_();
  ExprPtr not_();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filter_chain(ExprPtr node);
  ExprPtr attribute(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr call(ExprPtr node);
  ExprPtr filter(ExprPtr node);
  ExprPtr test(ExprPtr node);
  void arguments(Expr& node);
  bool ends_tuple(std::initializer_list<std::string_view> ends) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace butterfly::model::chat_template
