// Sets of characters that expressions have names for.
#include <utf8proc.h>

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
  CodePointSet set;
  if (prefix.empty()) return set;
  for (uint32_t c = 0; c <= kCodePointMax; ++c) {
    const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    if (!category.starts_with(prefix)) continue;
    uint32_t last = c;
    while (last < kCodePointMax &&
           std::string_view(utf8proc_category_string(static_cast<utf8proc_int32_t>(last + 1)))
               .starts_with(prefix))
      ++last;
    set.add(c, last);
    c = last;
  }
  return set;
}

}  // namespace butterfly::model::grammar
