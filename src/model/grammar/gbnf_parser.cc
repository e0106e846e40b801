#include "model/grammar/gbnf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/grammar/limits.h"
#include "model/grammar/source_reader.h"

namespace butterfly::model::grammar {

namespace {

using Kind = RegexNode::Kind;
constexpr size_t kRulesMax = 20'000;
constexpr uint32_t kUndefined = ~uint32_t{0};
constexpr int kStackedRepeatsMax = 4;  // a+?: more would make deep trees of long lines

class Parser : SourceReader {
 public:
  explicit Parser(std::string_view text) : SourceReader(text) {}

  GbnfTree parse() {
    skip(true);
    while (more()) rule();
    for (const GbnfRule& r : tree_.rules)
      if (r.root == kUndefined)
        fail(Errc::kInvalidArgument, "grammar: rule '{}' is used but not defined", r.name);
    const auto root = ids_.find("root");
    if (root == ids_.end()) fail(Errc::kInvalidArgument, "grammar: there is no rule 'root'");
    tree_.root = root->second;
    return std::move(tree_);
  }

 private:
  std::string where() const override {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(at_);
    return fmt::format("grammar, line {}", 1 + std::count(text_.begin(), end, '\n'));
  }
  // Blanks and comments; line breaks only where a rule goes on.
  void skip(bool breaks) {
    while (more()) {
      const char c = next();
      if (c == '#') {
        while (more() && next() != '\n' && next() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (breaks && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string name() {
    const size_t from = at_;
    while (more() && in_name(next())) ++at_;
    if (at_ == from) bad("expected the name of a rule");
    return std::string(text_.substr(from, at_ - from));
  }
  uint32_t id_of(const std::string& name) {
    const auto [found, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(tree_.rules.size()));
    if (is_new) {
      if (tree_.rules.size() >= kRulesMax) too_large(fmt::format("more than {} rules", kRulesMax));
      tree_.rules.push_back({name, kUndefined});
    }
    return found->second;
  }
  uint32_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }

  void rule() {
    const uint32_t id = id_of(name());
    if (tree_.rules[id].root != kUndefined) bad("rule '" + tree_.rules[id].name + "' is defined twice");
    skip(false);
    if (!take("::=")) bad("expected '::=' behind the name of a rule");
    skip(true);
    const uint32_t root = alternatives(0);
    tree_.rules[id].root = root;
    if (more() && next() != '\n' && next() != '\r') bad("expected the end of the line");
    skip(true);
  }

  uint32_t alternatives(int depth) {
    if (depth > kNestingMax) too_large(fmt::format("groups nested deeper than {} levels", kNestingMax));
    std::vector<uint32_t> options{sequence(depth)};
    while (take("|")) {
      skip(true);
      options.push_back(sequence(depth));
    }
    if (options.size() == 1) return options[0];
    return add({Kind::kAlternatives, {}, std::move(options), 0, 0});
  }

  uint32_t sequence(int depth) {
    const bool nested = depth > 0;
    std::vector<uint32_t> items;
    while (more()) {
      const char c = next();
      uint32_t item = 0;
      if (c == '"') {
        item = quoted();
      } else if (c == '[') {
        ++at_;
        item = add({Kind::kSet, char_class(), {}, 0, 0});
      } else if (c == '.') {
        ++at_;
        item = add({Kind::kSet, CodePointSet::all(), {}, 0, 0});
      } else if (c == '(') {
        ++at_;
        skip(true);
        item = alternatives(depth + 1);
        if (!take(")")) bad("expected ')'");
      } else if (in_name(c)) {
        item = add({Kind::kRule, {}, {}, id_of(name()), 0});
      } else if (c == '<' || c == '!') {
        unsupported("a token by name or number (<…>, !)");
      } else {
        break;
      }
      skip(nested);
      items.push_back(repeated(item, nested));
    }
    if (items.size() == 1) return items[0];
    return add({Kind::kConcat, {}, std::move(items), 0, 0});
  }

  uint32_t repeated(uint32_t item, bool nested) {
    for (int stacked = 0; more(); ++stacked) {
      uint32_t min = 0, max = RegexNode::kNoMax;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (take("{")) {
        braces(min, max);
      } else {
        break;
      }
      if (stacked >= kStackedRepeatsMax) bad("too many repetitions of one thing");
      item = add({Kind::kRepeat, {}, {item}, min, max});
      skip(nested);
    }
    return item;
  }

  void braces(uint32_t& min, uint32_t& max) {
    skip(false);
    min = number();
    max = min;
    skip(false);
    if (take(",")) {
      skip(false);
      max = count().value_or(RegexNode::kNoMax);
      skip(false);
    }
    if (!take("}")) bad("expected '}'");
    if (max < min) bad("{m,n} with n below m");
  }

  uint32_t number() {
    const auto value = count();
    if (!value) bad("expected a number");
    return *value;
  }

  uint32_t quoted() {
    ++at_;
    std::vector<uint32_t> items;
    while (true) {
      if (!more() || next() == '\n') bad("a text without its second '\"'");
      if (take("\"")) break;
      const uint32_t c = character();
      items.push_back(add({Kind::kSet, CodePointSet::of(c, c), {}, 0, 0}));
    }
    return add({Kind::kConcat, {}, std::move(items), 0, 0});
  }

  CodePointSet char_class() {
    const bool negative = take("^");
    CodePointSet set;
    while (true) {
      if (!more()) bad("a '[' without ']'");
      if (take("]")) break;
      const uint32_t first = character();
      uint32_t last = first;
      if (at_ + 1 < text_.size() && next() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
        if (last < first) bad("a range of characters that runs backwards");
      }
      set.add(first, last);
    }
    return negative ? set.negated() : set;
  }

  uint32_t character() {
    if (next() == '\\') {
      ++at_;
      if (!more()) bad("a backslash at the end");
      const char c = text_[at_++];
      switch (c) {
        case 'n':
          return '\n';
        case 't':
          return '\t';
        case 'r':
          return '\r';
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^':
        case '/':
          return static_cast<uint8_t>(c);
        case 'x':
          return escape(2);
        case 'u':
          return escape(4);
        case 'U':
          return escape(8);
        default:
          bad("an escape that is not known");
      }
    }
    return code_point();
  }

  uint32_t escape(int digits) {
    const uint32_t value = hex(digits);
    if (value > kCodePointMax || (value >= 0xD800 && value <= 0xDFFF)) bad("an escape that is no character");
    return value;
  }

  GbnfTree tree_;
  std::map<std::string, uint32_t> ids_;
};

}  // namespace

GbnfTree parse_gbnf(std::string_view text) {
  if (text.size() > kSourceBytesMax)
    fail(Errc::kOutOfMemory, "grammar: {} bytes, at most {} are read", text.size(), kSourceBytesMax);
  return Parser(text).parse();
}

}  // namespace butterfly::model::grammar
