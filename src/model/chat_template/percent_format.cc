#include "model/chat_template/percent_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat_template/python_text.h"

namespace butterfly::model::chat_template {

namespace {

constexpr int kWidthMax = 1000;

struct Spec {
  bool left = false, zero = false, plus = false;
  int width = 0;
  int precision = -1;
};

// How many characters are missing to the width.
size_t missing(std::string_view text, const Spec& spec) {
  const size_t count = character_count(text);
  return static_cast<size_t>(spec.width) - std::min(count, static_cast<size_t>(spec.width));
}

Text padded(TextView text, const Spec& spec) {
  const std::string blanks(missing(text.bytes, spec), ' ');
  Text result;
  if (!spec.left) result.append(blanks, Origin::kTemplate);
  result.append(text);
  if (spec.left) result.append(blanks, Origin::kTemplate);
  return result;
}

Text padded_number(std::string digits, const Spec& spec) {
  if (spec.zero && !spec.left) {
    const size_t sign = digits.starts_with('-') || digits.starts_with('+') ? 1 : 0;
    digits.insert(sign, missing(digits, spec), '0');
  }
  return padded({digits, Origin::kTemplate}, spec);
}

int read_number(std::string_view format, size_t& i) {
  int number = 0;
  for (; i < format.size() && format[i] >= '0' && format[i] <= '9'; ++i) {
    number = number * 10 + (format[i] - '0');
    if (number > kWidthMax) fail(Errc::kInvalidArgument, "a width in a format is above {}", kWidthMax);
  }
  return number;
}

Text convert(Budget& budget, char kind, const Spec& spec, const Value& value) {
  if (kind == 's' || kind == 'r') {
    Text text;
    if (kind == 's') {
      text = python_str(budget, value);
    } else {
      python_repr(budget, value, text);
    }
    TextView view = text.view();
    if (spec.precision >= 0) {
      const auto letters = characters(view.bytes);
      const auto kept = static_cast<size_t>(spec.precision);
      if (letters.size() > kept)
        view = view.substr(0, static_cast<size_t>(letters[kept].data() - view.bytes.data()));
    }
    return padded(view, spec);
  }
  if (!value.is_number())
    fail(Errc::kInvalidArgument, "%{} in a format needs a number, found {}", kind, value.type_name());
  std::string text;
  if (kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X') {
    if (kind != 'd' && kind != 'i' && !value.is_int())
      fail(Errc::kInvalidArgument, "%{} in a format needs an integer, found {}", kind, value.type_name());
    if (!value.is_int() && !(std::abs(value.real()) < 9e18))
      fail(Errc::kInvalidArgument, "%{} in a format needs an integer of 64 bits", kind);
    const int64_t number = value.is_int() ? value.integer() : static_cast<int64_t>(value.real());
    text = kind == 'x'   ? fmt::format("{:x}", number)
           : kind == 'X' ? fmt::format("{:X}", number)
                         : fmt::format("{}", number);
  } else {
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    text = kind == 'f'   ? fmt::format("{:.{}f}", value.real(), precision)
           : kind == 'e' ? fmt::format("{:.{}e}", value.real(), precision)
                         : fmt::format("{:.{}g}", value.real(), std::max(precision, 1));
  }
  if (spec.plus && !text.starts_with('-')) text.insert(text.begin(), '+');
  return padded_number(std::move(text), spec);
}

}  // namespace

Text percent_format(Budget& budget, TextView text_of_format, const Value& values) {
  const std::string_view format = text_of_format.bytes;
  const bool tuple = values.list() != nullptr && values.list()->kind == ListKind::kTuple;
  const size_t available = tuple ? values.list()->items.size() : 1;
  size_t used = 0;
  bool by_name = false;
  Text text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text.append(text_of_format.substr(i, 1));
      continue;
    }
    ++i;
    const Value* value = nullptr;
    if (i < format.size() && format[i] == '(') {
      const size_t end = format.find(')', i);
      if (end == format.npos || values.dict() == nullptr)
        fail(Errc::kInvalidArgument, "%(name) in a format needs a dict");
      value = values.dict()->find(format.substr(i + 1, end - i - 1));
      if (value == nullptr) fail(Errc::kInvalidArgument, "a name of the format is not in the dict");
      i = end + 1;
      by_name = true;
    }
    Spec spec;
    for (; i < format.size() && std::string_view("-0+ #").find(format[i]) != std::string_view::npos; ++i) {
      spec.left |= format[i] == '-';
      spec.zero |= format[i] == '0';
      spec.plus |= format[i] == '+';
    }
    spec.width = read_number(format, i);
    if (i < format.size() && format[i] == '.') spec.precision = read_number(format, ++i);
    if (i >= format.size()) fail(Errc::kInvalidArgument, "a format ends after %");
    if (format[i] == '%') {
      text.append(text_of_format.substr(i, 1));
      continue;
    }
    if (std::string_view("srdixXfeg").find(format[i]) == std::string_view::npos)
      fail(Errc::kUnsupported, "%{} in a format is not supported", format[i]);
    if (value == nullptr) {
      if (used >= available) fail(Errc::kInvalidArgument, "a format has more places than values");
      value = tuple ? &values.list()->items[used] : &values;
      ++used;
    }
    const Text part = convert(budget, format[i], spec, *value);
    budget.allocate(part.size());
    text.append(part.view());
  }
  if (!by_name && used < available && (tuple || values.dict() == nullptr))
    fail(Errc::kInvalidArgument, "a format has {} places for {} values", used, available);
  return text;
}

Text brace_format(Budget& budget, TextView text_of_format, const Arguments& arguments) {
  const std::string_view format = text_of_format.bytes;
  Text text;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      text.append(text_of_format.substr(i, 1));
      ++i;
      continue;
    }
    if (c == '}') fail(Errc::kInvalidArgument, "format: found a single }}");
    if (c != '{') {
      text.append(text_of_format.substr(i, 1));
      continue;
    }
    const size_t end = format.find('}', i);
    if (end == format.npos) fail(Errc::kInvalidArgument, "format: a {{ has no end");
    const std::string_view field = format.substr(i + 1, end - i - 1);
    if (field.find_first_of(":!.[{") != field.npos)
      fail(Errc::kUnsupported, "format: {{{}}} is not supported, only names and numbers are", field);
    const Value* value = nullptr;
    size_t number = next;
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), number);
    if (field.empty() || (parsed.ec == std::errc() && parsed.ptr == field.data() + field.size())) {
      if (field.empty()) ++next;
      if (number < arguments.positional.size()) value = &arguments.positional[number];
    } else {
      for (const auto& [name, each] : arguments.named)
        if (name == field) value = &each;
    }
    if (value == nullptr) fail(Errc::kInvalidArgument, "format: there is no value for {{{}}}", field);
    const Text part = python_str(budget, *value);
    budget.allocate(part.size());
    text.append(part.view());
    i = end;
  }
  return text;
}

}  // namespace butterfly::model::chat_template
