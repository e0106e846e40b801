#include "model/grammar/regex_parser.h"

#include <fmt/format.h>

#include "model/grammar/limits.h"
#include "model/grammar/source_reader.h"

namespace butterfly::model::grammar {

namespace {

using Kind = RegexNode::Kind;

class RegexParser : SourceReader {
 public:
  explicit RegexParser(std::string_view text) : SourceReader(text) {}

  RegexTree parse() {
    parse_look_aheads();
    tree_.root = alternatives(0);
    if (at_ < text_.size()) bad("a ')' without '('");
    if (!tree_.look_aheads.empty()) {
      // What is looked at begins where the text begins, so the rest must be one alternative that does, too.
      if (tree_.nodes[tree_.root].kind == Kind::kAlternatives) unsupported("look-ahead in an alternative");
      tree_.root = add({Kind::kConcat, {}, {add({Kind::kBegin, {}, {}, 0, 0}), tree_.root}, 0, 0});
    }
    return std::move(tree_);
  }

 private:
  std::string where() const override { return fmt::format("expression '{}' at byte {}", text_, at_); }
  uint32_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }

  void parse_look_aheads() {
    const size_t begin = at_;
    if (!take("^")) return;
    while (sees("(?=") || sees("(?!")) {
      const bool negative = text_[at_ + 2] == '!';
      at_ += 3;
      const uint32_t inner = alternatives(1);
      if (!take(")")) bad("a '(' without ')'");
      const uint32_t root = add({Kind::kConcat, {}, {add({Kind::kBegin, {}, {}, 0, 0}), inner}, 0, 0});
      tree_.look_aheads.push_back({root, negative});
    }
    if (tree_.look_aheads.empty()) at_ = begin;
  }

  uint32_t alternatives(int depth) {
    if (depth > kNestingMax) too_large(fmt::format("groups nested deeper than {} levels", kNestingMax));
    std::vector<uint32_t> options{sequence(depth)};
    while (take("|")) options.push_back(sequence(depth));
    if (options.size() == 1) return options[0];
    return add({Kind::kAlternatives, {}, std::move(options), 0, 0});
  }

  uint32_t sequence(int depth) {
    std::vector<uint32_t> items;
    while (more() && next() != '|' && next() != ')') items.push_back(repeated(depth));
    if (items.size() == 1) return items[0];
    return add({Kind::kConcat, {}, std::move(items), 0, 0});
  }

  uint32_t repeated(int depth) {
    const uint32_t item = atom(depth);
    uint32_t min = 0, max = RegexNode::kNoMax;
    if (take("*")) {
    } else if (take("+")) {
      min = 1;
    } else if (take("?")) {
      max = 1;
    } else if (!braces(min, max)) {
      return item;
    }
    take("?");  // lazy or greedy: the same texts
    const Kind kind = tree_.nodes[item].kind;
    if (kind == Kind::kBegin || kind == Kind::kEnd) bad("nothing to repeat");
    // One of these behind another would also make trees as deep as the expression is long.
    if (more() && std::string_view("*+?{").find(next()) != std::string_view::npos) bad("nothing to repeat");
    return add({Kind::kRepeat, {}, {item}, min, max});
  }

  // {n} {n,} {n,m}; anything else with a brace is the brace itself, as browsers have it.
  bool braces(uint32_t& min, uint32_t& max) {
    const size_t begin = at_;
    if (!take("{")) return false;
    const auto least = count();
    bool good = least.has_value();
    if (good) {
      min = max = *least;
      if (take(",")) max = count().value_or(RegexNode::kNoMax);
      good = take("}");
    }
    if (!good) {
      at_ = begin;
      return false;
    }
    if (max < min) bad("{m,n} with n below m");
    return true;
  }

  uint32_t atom(int depth) {
    const char c = next();
    switch (c) {
      case '^':
        ++at_;
        return add({Kind::kBegin, {}, {}, 0, 0});
      case '$':
        ++at_;
        return add({Kind::kEnd, {}, {}, 0, 0});
      case '(':
        return group(depth);
      case '[':
        ++at_;
        return add({Kind::kSet, bracket_class(), {}, 0, 0});
      case '*':
      case '+':
      case '?':
        bad("nothing to repeat");
      case '.': {
        ++at_;
        CodePointSet breaks;
        for (const uint32_t b : {0x0Au, 0x0Du, 0x2028u, 0x2029u}) breaks.add(b, b);
        return add({Kind::kSet, breaks.negated(), {}, 0, 0});
      }
      default:
        break;
    }
    CodePointSet set;
    one_or_class(false, set);
    return add({Kind::kSet, std::move(set), {}, 0, 0});
  }

  uint32_t group(int depth) {
    ++at_;
    if (take("?")) {
      if (take(":")) {
      } else if (take("<") && more() && next() != '=' && next() != '!') {
        while (more() && next() != '>') ++at_;
        if (!take(">")) bad("a group's name without '>'");
      } else {
        unsupported("this kind of group (look-around or flags)");
      }
    }
    const uint32_t inner = alternatives(depth + 1);
    if (!take(")")) bad("a '(' without ')'");
    // In a node of its own, so that what is repeated is the group and never an anchor.
    return add({Kind::kConcat, {}, {inner}, 0, 0});
  }

  CodePointSet bracket_class() {
    const bool negative = take("^");
    CodePointSet set;
    while (true) {
      if (!more()) bad("a '[' without ']'");
      if (take("]")) break;
      CodePointSet first_set;
      const int64_t first = one_or_class(true, first_set);
      if (first >= 0 && at_ + 1 < text_.size() && next() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        CodePointSet last_set;
        const int64_t last = one_or_class(true, last_set);
        if (last < 0) {  // [a-\d]: three members
          set.add('-', '-');
          set.add(last_set);
        } else if (last < first) {
          bad("a range of characters that runs backwards");
        } else {
          set.add(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
          continue;
        }
      }
      set.add(first_set);
    }
    return negative ? set.negated() : set;
  }

  // One character, plain or escaped: its code point, which is also added to `set`. -1 for an escape that
  // stands for several.
  int64_t one_or_class(bool in_class, CodePointSet& set) {
    uint32_t c = 0;
    if (next() != '\\') {
      c = code_point();
    } else {
      ++at_;
      if (!more()) bad("a backslash at the end");
      const char letter = next();
      set = class_escape(letter);
      if (!set.empty()) {
        ++at_;
        return -1;
      }
      if (letter == 'p' || letter == 'P') {
        set = property(letter == 'P');
        return -1;
      }
      c = escaped(letter, in_class);
    }
    set.add(c, c);
    return c;
  }

  uint32_t escaped(char letter, bool in_class) {
    switch (letter) {
      case 't':
        ++at_;
        return '\t';
      case 'n':
        ++at_;
        return '\n';
      case 'v':
        ++at_;
        return '\v';
      case 'f':
        ++at_;
        return '\f';
      case 'r':
        ++at_;
        return '\r';
      case '0':
        ++at_;
        return 0;
      case 'x':
        ++at_;
        return hex(2);
      case 'u':
        ++at_;
        return unicode_escape();
      case 'c': {
        ++at_;
        if (!more()) bad("\\c without a letter");
        return static_cast<uint32_t>(text_[at_++] & 0x1F);
      }
      case 'b':
        if (in_class) {
          ++at_;
          return '\b';
        }
        unsupported("a word boundary");
      case 'B':
        unsupported("a word boundary");
      case 'k':
        unsupported("a back-reference");
      default:
        break;
    }
    if (letter >= '1' && letter <= '9') unsupported("a back-reference");
    return code_point();
  }

  uint32_t unicode_escape() {
    if (take("{")) {
      const size_t end = text_.find('}', at_);
      if (end == text_.npos || end == at_ || end - at_ > 6) bad("\\u{…} needs one to six digits");
      const uint32_t value = hex(static_cast<int>(end - at_));
      ++at_;
      if (value > kCodePointMax) bad("a character above 10FFFF");
      return value;
    }
    uint32_t value = hex(4);
    if (value >= 0xD800 && value <= 0xDBFF && take("\\u")) {
      const uint32_t low = hex(4);
      if (low < 0xDC00 || low > 0xDFFF) bad("half of a surrogate pair");
      value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    if (value >= 0xD800 && value <= 0xDFFF) unsupported("half of a surrogate pair");
    return value;
  }

  CodePointSet property(bool negative) {
    ++at_;
    const size_t end = text_.find('}', at_);
    if (!take("{") || end == text_.npos) bad("\\p without {name}");
    const CodePointSet set = unicode_category(text_.substr(at_, end - at_));
    if (set.empty()) unsupported("this Unicode property");
    at_ = end + 1;
    return negative ? set.negated() : set;
  }

  RegexTree tree_;
};

}  // namespace

RegexTree parse_regex(std::string_view expression) { return RegexParser(expression).parse(); }

}  // namespace butterfly::model::grammar
