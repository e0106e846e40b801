#include "model/grammar/regex_parser.h"

#include "base/error.h"
#include "model/grammar/limits.h"
#include "model/tokenizer/utf8.h"

namespace butterfly::model::grammar {

namespace {

using Kind = RegexNode::Kind;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

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
  [[noreturn]] void bad(std::string_view what) const {
    fail(Errc::kInvalidArgument, "expression '{}' at byte {}: {}", text_, at_, what);
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    fail(Errc::kUnsupported, "expression '{}' at byte {}: {} is not supported", text_, at_, what);
  }

  bool more() const { return at_ < text_.size(); }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  uint32_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }

  void parse_look_aheads() {
    const size_t begin = at_;
    if (!take("^")) return;
    while (text_.substr(at_).starts_with("(?=") || text_.substr(at_).starts_with("(?!")) {
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
    if (depth > kNestingMax)
      fail(Errc::kOutOfMemory, "an expression nested deeper than {} groups", kNestingMax);
    std::vector<uint32_t> options{sequence(depth)};
    while (take("|")) options.push_back(sequence(depth));
    if (options.size() == 1) return options[0];
    return add({Kind::kAlternatives, {}, std::move(options), 0, 0});
  }

  uint32_t sequence(int depth) {
    std::vector<uint32_t> items;
    while (more() && text_[at_] != '|' && text_[at_] != ')') items.push_back(repeated(depth));
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
    } else if (!more() || !braces(min, max)) {
      return item;
    }
    take("?");  // lazy or greedy: the same texts
    const Kind kind = tree_.nodes[item].kind;
    if (kind == Kind::kBegin || kind == Kind::kEnd) bad("nothing to repeat");
    // One of these behind another would also make trees as deep as the expression is long.
    if (more() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos)
      bad("nothing to repeat");
    return add({Kind::kRepeat, {}, {item}, min, max});
  }

  // {n} {n,} {n,m}; anything else with a brace is the brace itself, as browsers have it.
  bool braces(uint32_t& min, uint32_t& max) {
    if (text_[at_] != '{') return false;
    const size_t begin = at_;
    ++at_;
    const auto number = [&](uint32_t& value) {
      const size_t from = at_;
      uint64_t sum = 0;
      while (more() && text_[at_] >= '0' && text_[at_] <= '9') {
        sum = sum * 10 + static_cast<uint64_t>(text_[at_++] - '0');
        if (sum > kRepetitionMax)
          fail(Errc::kOutOfMemory, "expression '{}': repeats more than {} times", text_, kRepetitionMax);
      }
      value = static_cast<uint32_t>(sum);
      return at_ > from;
    };
    bool good = number(min);
    if (good) {
      max = min;
      if (take(",") && !number(max)) max = RegexNode::kNoMax;
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
    const char c = text_[at_];
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
      } else if (take("<") && more() && text_[at_] != '=' && text_[at_] != '!') {
        while (more() && text_[at_] != '>') ++at_;
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
      if (first >= 0 && at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
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
    if (text_[at_] != '\\') {
      c = code_point();
    } else {
      ++at_;
      if (!more()) bad("a backslash at the end");
      const char letter = text_[at_];
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

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!more()) bad("too few hexadecimal digits");
      const char c = text_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) bad("not a hexadecimal digit");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
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

  uint32_t code_point() {
    const size_t length = utf8_length(text_.substr(at_));
    if (length == 0) bad("not UTF-8");
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text_[at_ + i]); };
    uint32_t c = length == 1 ? byte(0) : byte(0) & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; ++i) c = (c << 6) | (byte(i) & 0x3Fu);
    at_ += length;
    return c;
  }

  std::string_view text_;
  size_t at_ = 0;
  RegexTree tree_;
};

}  // namespace

RegexTree parse_regex(std::string_view expression) { return Parser(expression).parse(); }

}  // namespace butterfly::model::grammar
