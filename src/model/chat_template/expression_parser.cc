#include "model/chat_template/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace butterfly::model::chat_template {

namespace {

template <typename... Nodes>
std::vector<ExprPtr> operands_of(Nodes... nodes) {
  std::vector<ExprPtr> list;
  (list.push_back(std::move(nodes)), ...);
  return list;
}

struct OpName {
  std::string_view text;
  Op op;
};
constexpr OpName kSums[] = {{"+", Op::kAdd}, {"-", Op::kSub}};
constexpr OpName kProducts[] = {{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}};
constexpr OpName kPowers[] = {{"**", Op::kPow}};
constexpr OpName kComparisons[] = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
                                   {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};

const OpName* find_op(std::span<const OpName> table, const Token& token) {
  for (const OpName& row : table)
    if (token.is_operator(row.text)) return &row;
  return nullptr;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kNestingMax)
    fail(Errc::kInvalidArgument, "line {}: nested deeper than {}", parser_.current().line, kNestingMax);
  ++parser_.nesting_;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!current().is_operator(text)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!current().is_name(text)) return false;
  take();
  return true;
}

void ExpressionParser::unexpected(std::string_view expected) const {
  fail(Errc::kInvalidArgument, "line {}: expected {}, found '{}'", current().line, expected,
       std::string_view(current().text).substr(0, 40));
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(fmt::format("'{}'", text));
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::kName) unexpected("a name");
  return take().text;
}

void ExpressionParser::expect_kind(TokenKind kind, std::string_view text) {
  if (current().kind != kind) unexpected(fmt::format("'{}'", text));
  take();
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, std::vector<ExprPtr> operands) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  node->operands = std::move(operands);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::finish(ExprPtr node) const {
  const auto count = [&](const ExprPtr& part) {
    if (part != nullptr) node->height = std::max(node->height, part->height + 1);
  };
  for (const ExprPtr& operand : node->operands) count(operand);
  for (const auto& [name, value] : node->named) count(value);
  if (node->height > kExpressionDepthMax)
    fail(Errc::kInvalidArgument, "line {}: an expression is deeper than {}", node->line, kExpressionDepthMax);
  return node;
}

bool ExpressionParser::ends_tuple(std::initializer_list<std::string_view> ends) const {
  const Token& token = current();
  if (token.kind == TokenKind::kOutputEnd || token.kind == TokenKind::kTagEnd || token.is_operator(")"))
    return true;
  return token.kind == TokenKind::kName && std::find(ends.begin(), ends.end(), token.text) != ends.end();
}

ExprPtr ExpressionParser::tuple(bool with_condition, std::initializer_list<std::string_view> ends) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool has_comma = false;
  while (!ends_tuple(ends)) {
    items.push_back(conditional(with_condition));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && items.size() == 1) return std::move(items[0]);
  if (items.empty()) unexpected("an expression");
  return make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::target(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool has_comma = false;
  while (!ends_tuple(ends) && !current().is_operator("=")) {
    if (skip_operator("(")) {
      items.push_back(target({}));
      expect_operator(")");
    } else {
      items.push_back(make(ExprKind::kName, line));
      items.back()->name = expect_name();
      if (skip_operator(".")) {
        items.back() = make(ExprKind::kAttr, line, operands_of(std::move(items.back())));
        items.back()->name = expect_name();
      }
    }
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (items.empty()) unexpected("a name to set");
  if (!has_comma) return std::move(items[0]);
  return make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::conditional(bool with_condition) {
  const Nesting nesting(*this);
  ExprPtr node = or_();
  while (with_condition && current().is_name("if")) {
    const int line = take().line;
    ExprPtr condition = or_();
    ExprPtr otherwise = skip_name("else") ? conditional(true) : nullptr;
    node =
        make(ExprKind::kCond, line, operands_of(std::move(node), std::move(condition), std::move(otherwise)));
  }
  return node;
}

ExprPtr ExpressionParser::or_() {
  ExprPtr left = and_();
  while (current().is_name("or")) {
    const int line = take().line;
    left = make(ExprKind::kOr, line, operands_of(std::move(left), and_()));
  }
  return left;
}

ExprPtr ExpressionParser::and_() {
  ExprPtr left = not_();
  while (current().is_name("and")) {
    const int line = take().line;
    left = make(ExprKind::kAnd, line, operands_of(std::move(left), not_()));
  }
  return left;
}

ExprPtr ExpressionParser::not_() {
  if (!current().is_name("not")) return compare();
  const Nesting nesting(*this);
  const int line = take().line;
  return make(ExprKind::kNot, line, operands_of(not_()));
}

ExprPtr ExpressionParser::compare() {
  const int line = current().line;
  ExprPtr first = sum();
  std::vector<ExprPtr> operands;
  std::vector<Op> ops;
  while (true) {
    if (const OpName* row = find_op(kComparisons, current())) {
      take();
      ops.push_back(row->op);
    } else if (skip_name("in")) {
      ops.push_back(Op::kIn);
    } else if (current().is_name("not") && ahead().is_name("in")) {
      take();
      take();
      ops.push_back(Op::kNotIn);
    } else {
      break;
    }
    operands.push_back(sum());
  }
  if (ops.empty()) return first;
  operands.insert(operands.begin(), std::move(first));
  ExprPtr node = make(ExprKind::kCompare, line, std::move(operands));
  node->ops = std::move(ops);
  return node;
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  while (const OpName* row = find_op(kSums, current())) {
    const int line = take().line;
    left = make(ExprKind::kBinary, line, operands_of(std::move(left), concat()));
    left->ops = {row->op};
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts = operands_of(product());
  while (skip_operator("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make(ExprKind::kConcat, line, std::move(parts));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (const OpName* row = find_op(kProducts, current())) {
    const int line = take().line;
    left = make(ExprKind::kBinary, line, operands_of(std::move(left), power()));
    left->ops = {row->op};
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  while (const OpName* row = find_op(kPowers, current())) {
    const int line = take().line;
    left = make(ExprKind::kBinary, line, operands_of(std::move(left), unary(true)));
    left->ops = {row->op};
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const int line = current().line;
  ExprPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Nesting nesting(*this);
    const ExprKind kind = take().text == "-" ? ExprKind::kNeg : ExprKind::kPos;
    node = make(kind, line, operands_of(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filter_chain(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary() {
  const int line = current().line;
  ExprPtr node = make(ExprKind::kConst, line);
  switch (current().kind) {
    case TokenKind::kName: {
      node->name = take().text;
      if (node->name == "true" || node->name == "True") {
        node->value = true;
      } else if (node->name == "false" || node->name == "False") {
        node->value = false;
      } else if (node->name == "none" || node->name == "None") {
        node->value = None();
      } else {
        node->kind = ExprKind::kName;
      }
      return node;
    }
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += take().text;
      node->value = Value::own(text);
      return node;
    }
    case TokenKind::kInteger: {
      int64_t number = 0;
      const std::string& digits = current().text;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
        unexpected("an integer of 64 bits");
      node->value = number;
      take();
      return node;
    }
    case TokenKind::kFloat: {
      double number = 0;
      const std::string& digits = current().text;
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      node->value = number;
      take();
      return node;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    if (skip_operator(")")) return make(ExprKind::kTuple, line);
    node = tuple(true);
    expect_operator(")");
    return node;
  }
  if (current().is_operator("[")) return list();
  if (current().is_operator("{")) return dict();
  unexpected("an expression");
}

ExprPtr ExpressionParser::list() {
  const int line = take().line;
  std::vector<ExprPtr> items;
  while (!current().is_operator("]")) {
    items.push_back(expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("]");
  return make(ExprKind::kList, line, std::move(items));
}

ExprPtr ExpressionParser::dict() {
  const int line = take().line;
  std::vector<ExprPtr> items;
  while (!current().is_operator("}")) {
    items.push_back(expression());
    expect_operator(":");
    items.push_back(expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return make(ExprKind::kDict, line, std::move(items));
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (current().is_operator(".")) {
      node = attribute(std::move(node));
    } else if (current().is_operator("[")) {
      node = subscript(std::move(node));
    } else if (current().is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

// After a filter a call is one of its result; attributes and subscripts belong before it.
ExprPtr ExpressionParser::filter_chain(ExprPtr node) {
  while (true) {
    if (current().is_operator("|")) {
      node = filter(std::move(node));
    } else if (current().is_name("is")) {
      node = test(std::move(node));
    } else if (current().is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::attribute(ExprPtr node) {
  const int line = take().line;
  if (current().kind == TokenKind::kInteger) {
    ExprPtr index = primary();
    return make(ExprKind::kItem, line, operands_of(std::move(node), std::move(index)));
  }
  node = make(ExprKind::kAttr, line, operands_of(std::move(node)));
  node->name = expect_name();
  return node;
}

ExprPtr ExpressionParser::subscript(ExprPtr node) {
  const int line = take().line;
  std::vector<ExprPtr> parts;
  bool slice = false;
  const auto part = [&] {
    const bool absent = current().is_operator(":") || current().is_operator("]");
    parts.push_back(absent ? nullptr : expression());
  };
  part();
  while (parts.size() < 3 && skip_operator(":")) {
    slice = true;
    part();
  }
  if (!slice && parts[0] == nullptr) unexpected("an expression");
  expect_operator("]");
  if (slice) parts.resize(3);
  parts.insert(parts.begin(), std::move(node));
  return make(slice ? ExprKind::kSlice : ExprKind::kItem, line, std::move(parts));
}

void ExpressionParser::arguments(Expr& node) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (current().is_operator("*")) {
      const int line = take().line;
      node.operands.push_back(make(ExprKind::kSpread, line, operands_of(expression())));
    } else if (skip_operator("**")) {
      node.named.emplace_back("", expression());
    } else if (current().kind == TokenKind::kName && ahead().is_operator("=")) {
      std::string name = take().text;
      take();
      node.named.emplace_back(std::move(name), expression());
    } else {
      if (!node.named.empty()) unexpected("an argument with a name");
      node.operands.push_back(expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
}

ExprPtr ExpressionParser::call(ExprPtr node) {
  node = make(ExprKind::kCall, current().line, operands_of(std::move(node)));
  arguments(*node);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::filter(ExprPtr node) {
  const int line = take().line;
  node = make(ExprKind::kFilter, line, operands_of(std::move(node)));
  node->name = expect_name();
  if (current().is_operator("(")) arguments(*node);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::filters_of(ExprPtr operand) {
  while (current().is_operator("|")) operand = filter(std::move(operand));
  return operand;
}

ExprPtr ExpressionParser::filters_without_operand() {
  ExprPtr node = make(ExprKind::kFilter, current().line, operands_of(ExprPtr()));
  node->name = expect_name();
  if (current().is_operator("(")) arguments(*node);
  return filters_of(finish(std::move(node)));
}

ExprPtr ExpressionParser::test(ExprPtr node) {
  const int line = take().line;
  const bool negated = skip_name("not");
  node = make(ExprKind::kTest, line, operands_of(std::move(node)));
  node->name = expect_name();
  const Token& next = current();
  if (next.is_operator("(")) {
    arguments(*node);
  } else if (next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
             next.kind == TokenKind::kFloat || next.is_operator("[") || next.is_operator("{") ||
             (next.kind == TokenKind::kName && !next.is_name("else") && !next.is_name("or") &&
              !next.is_name("and") && !next.is_name("if") && !next.is_name("is") && !next.is_name("not") &&
              !next.is_name("in") && !next.is_name("recursive"))) {
    node->operands.push_back(postfix(primary()));
  }
  node = finish(std::move(node));
  return negated ? make(ExprKind::kNot, line, operands_of(std::move(node))) : std::move(node);
}

}  // namespace butterfly::model::chat_template
