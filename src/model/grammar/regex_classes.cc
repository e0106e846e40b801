// Sets of characters that expressions have names for.
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "model/grammar/regex_parser.h"

namespace butterfly::model::grammar {

CodePointSet class_escape(char letter) {
  CodePointSet set;
  switch (letter) {
    case 'd':
    case 'D':
      set.add('0', '9');
      break;
    case 'w':
    case 'W':
      set.add('0', '9');
      set.add('A', 'Z');
      set.add('a', 'z');
      set.add('_', '_');
      break;
    case 's':
    case 'S':
      set.add(0x09, 0x0D);
      for (const uint32_t c : {0x20u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu})
        set.add(c, c);
      set.add(0x2000, 0x200A);
      break;
    default:
      return set;
  }
  return letter < 'a' ? set.negated() : set;
}

namespace {

struct CategoryName {
  std::string_view name;
  std::string_view prefix;  // of the two letters utf8proc gives
};
constexpr CategoryName kCategoryNames[] = {
    {"Letter", "L"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"Alphabetic", "L"},
};

constexpr std::string_view kCategories[] = {"Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu",
                                            "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
                                            "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

CodePointSet find_category(std::string_view prefix) {
  CodePointSet set;
  for (uint32_t c = 0; c <= kCodePointMax; ++c) {
    const auto starts = [&](uint32_t at) {
      const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(at));
      return category.starts_with(prefix);
    };
    if (!starts(c)) continue;
    uint32_t last = c;
    while (last < kCodePointMax && starts(last + 1)) ++last;
    set.add(c, last);
    c = last;
  }
  return set;
}

}  // namespace

CodePointSet unicode_category(std::string_view name) {
  if (const size_t equals = name.find('='); equals != name.npos) {
    const std::string_view key = name.substr(0, equals);
    if (key != "General_Category" && key != "gc") return {};
    name = name.substr(equals + 1);
  }
  std::string_view prefix = name.size() <= 2 ? name : std::string_view();
  for (const CategoryName& row : kCategoryNames)
    if (row.name == name) prefix = row.prefix;
  const auto begins = [&](std::string_view category) { return category.starts_with(prefix); };
  if (prefix.empty() || std::none_of(std::begin(kCategories), std::end(kCategories), begins)) return {};
  // Found once each: there are few, and looking takes a walk over all characters.
  static std::mutex mutex;
  static std::map<std::string, CodePointSet> known;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace(std::string(prefix));
  if (is_new) found->second = find_category(prefix);
  return found->second;
}

}  // namespace butterfly::model::grammar
