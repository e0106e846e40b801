// Filters that make texts and numbers.
#include <charconv>
#include <cmath>

#include "model/chat_template/json_text.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/percent_format.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/tables.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::chat_template {

namespace {

using Args = const Arguments&;

template <Text (*map)(TextView)>
Value mapped(Budget& budget, const Value& value, Args arguments) {
  arguments.bind("the filter", {});
  const Text text = python_str(budget, value);
  budget.allocate(text.size());
  return make_text(budget, map(text.view()));
}

// Unlike the method it begins a word only after white space and opening brackets.
Text filter_title(TextView text) {
  Text result;
  size_t word = 0;  // where it begins
  const auto flush = [&](size_t end) {
    result.append(python_capitalize(text.substr(word, end - word)).view());
  };
  for (const std::string_view character : characters(text.bytes)) {
    const uint32_t c = front_code_point(character).value;
    const bool between = python_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!between) continue;
    const auto place = static_cast<size_t>(character.data() - text.bytes.data());
    flush(place);
    result.append(text.part(character));
    word = place + character.size();
  }
  flush(text.size());
  return result;
}

std::string_view html_escape(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

Text escape_html(TextView text) {
  Text result;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view escape = html_escape(text.bytes[i]);
    result.append(escape.empty() ? text.substr(i, 1) : TextView(escape, text.at(i)));
  }
  return result;
}

Text as_it_is(TextView text) { return Text(text); }

Value trim(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("trim", {"chars"});
  const Text text = python_str(budget, value);
  if (bound[0] == nullptr || bound[0]->is_none())
    return make_text(budget, text.part(python_strip(text.bytes())));
  const std::string_view set = text_argument(bound[0], "trim: chars", "");
  return make_text(budget,
                   text.part(python_strip_left(budget, python_strip_right(budget, text.bytes(), set), set)));
}

Value replace(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("replace", {"old", "new", "count"});
  if (bound[0] == nullptr || bound[1] == nullptr) fail(Errc::kInvalidArgument, "replace needs two texts");
  const int64_t count =
      bound[2] == nullptr || bound[2]->is_none() ? -1 : integer_argument(bound[2], "replace: count", -1);
  const Text text = python_str(budget, value), from = python_str(budget, *bound[0]),
             to = python_str(budget, *bound[1]);
  return built_text(budget, python_replace(budget, text.view(), from.bytes(), to.view(), count));
}

// A text, or this many blanks.
Text margin_of(Budget& budget, const Value* argument, std::string_view what, int64_t absent) {
  if (argument != nullptr && argument->is_text()) return Text(argument->view());
  const int64_t width = std::max<int64_t>(integer_argument(argument, what, absent), 0);
  budget.allocate(static_cast<size_t>(width));
  return Text(std::string(static_cast<size_t>(width), ' '), Origin::kTemplate);
}

Value indent(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("indent", {"width", "first", "blank"});
  const Text margin = margin_of(budget, bound[0], "indent: width", 4);
  const bool blank = flag_argument(bound[2], false);
  Text text = python_str(budget, value);
  text.append("\n", Origin::kTemplate);
  Text result;
  if (flag_argument(bound[1], false)) result.append(margin.view());
  bool first = true;
  for (const std::string_view line : python_split_lines(text.bytes())) {
    budget.allocate(line.size() + margin.size());
    if (!first) {
      result.append("\n", Origin::kTemplate);
      if (blank || !line.empty()) result.append(margin.view());
    }
    result.append(text.part(line));
    first = false;
  }
  return built_text(budget, std::move(result));
}

Value tojson(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = flag_argument(bound[0], false);
  style.sort_keys = flag_argument(bound[3], false);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.indented = true;
    style.item_end = Text(",", Origin::kTemplate);
    style.indent = margin_of(budget, bound[1], "tojson: indent", 0);
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    const Values pair = iterate(budget, *bound[2]);
    if (pair.size() != 2) fail(Errc::kInvalidArgument, "tojson: separators must be two texts");
    for (const Value& each : pair) text_argument(&each, "tojson: separators", "");
    style.item_end = Text(pair[0].view());
    style.key_end = Text(pair[1].view());
  }
  return built_text(budget, to_json(budget, value, style));
}

// Python's float(): the whole text, with white space around it.
bool parse_float(std::string_view text, double& number) {
  text = python_strip(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

Value to_int(Budget&, const Value& value, Args arguments) {
  const auto bound = arguments.bind("int", {"default", "base"});
  const Value absent = bound[0] == nullptr ? Value(0) : *bound[0];
  require_defined(value);
  if (value.is_int()) return value.integer();
  double number = 0;
  if (value.is_text()) {
    std::string_view text = python_strip(value.text());
    if (text.starts_with('+')) text.remove_prefix(1);
    int64_t integer = 0;
    const int base = static_cast<int>(integer_argument(bound[1], "int: base", 10));
    if (base < 2 || base > 36) fail(Errc::kInvalidArgument, "int: base must be from 2 to 36");
    const auto result = std::from_chars(text.data(), text.data() + text.size(), integer, base);
    if (result.ec == std::errc() && result.ptr == text.data() + text.size()) return integer;
    if (!parse_float(text, number)) return absent;
  } else if (value.is_number()) {
    number = value.real();
  } else {
    return absent;
  }
  if (!(std::abs(number) < 9.2e18)) return absent;
  return static_cast<int64_t>(number);
}

Value to_float(Budget&, const Value& value, Args arguments) {
  const auto bound = arguments.bind("float", {"default"});
  require_defined(value);
  if (value.is_number()) return value.real();
  double number = 0;
  if (value.is_text() && parse_float(value.text(), number)) return number;
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

Value absolute(Budget&, const Value& value, Args arguments) {
  arguments.bind("abs", {});
  if (value.is_int()) return value.integer() < 0 ? negate(value) : Value(value.integer());
  if (value.is_number()) return std::abs(value.real());
  fail(Errc::kInvalidArgument, "abs needs a number, found {}", value.type_name());
}

Value round_number(Budget&, const Value& value, Args arguments) {
  const auto bound = arguments.bind("round", {"precision", "method"});
  const int64_t precision = integer_argument(bound[0], "round: precision", 0);
  const std::string_view method = text_argument(bound[1], "round: method", "common");
  if (!value.is_number()) fail(Errc::kInvalidArgument, "round needs a number, found {}", value.type_name());
  if (precision < 0 || precision > 300)
    fail(Errc::kInvalidArgument, "round: precision must be from 0 to 300");
  if (method == "common") {
    if (value.is_int()) return value;
    if (!std::isfinite(value.real())) return value.real();
    // The exact value is rounded to even, as by Python.
    return std::stod(fmt::format("{:.{}f}", value.real(), precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(value.real() * scale) / scale;
  if (method == "floor") return std::floor(value.real() * scale) / scale;
  fail(Errc::kInvalidArgument, "round: method must be common, ceil or floor, found {}", method);
}

Value format(Budget& budget, const Value& value, Args arguments) {
  const Text text = python_str(budget, value);
  if (arguments.named.empty())
    return built_text(budget, percent_format(budget, text.view(),
                                             make_list(budget, arguments.positional, ListKind::kTuple)));
  DictBuilder names(budget);
  for (const auto& [name, each] : arguments.named) names.add(name, each);
  return built_text(budget, percent_format(budget, text.view(), names.take()));
}

Value center(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("center", {"width"});
  Text text = python_str(budget, value);
  const auto width = integer_argument(bound[0], "center: width", 80);
  const auto count = static_cast<int64_t>(character_count(text.bytes()));
  if (width <= count) return text;
  budget.allocate(static_cast<size_t>(width));
  const int64_t missing = width - count;
  const auto left = static_cast<size_t>(missing / 2 + (missing & width & 1));
  Text centred(std::string(left, ' '), Origin::kTemplate);
  centred.append(text.view());
  centred.append(std::string(static_cast<size_t>(missing) - left, ' '), Origin::kTemplate);
  return built_text(budget, std::move(centred));
}

constexpr FilterRow kFilters[] = {
    {"trim", trim},
    {"tojson", tojson},
    {"string", mapped<as_it_is>},
    {"safe", mapped<as_it_is>},
    {"upper", mapped<python_upper>},
    {"lower", mapped<python_lower>},
    {"capitalize", mapped<python_capitalize>},
    {"title", mapped<filter_title>},
    {"escape", mapped<escape_html>},
    {"e", mapped<escape_html>},
    {"forceescape", mapped<escape_html>},
    {"replace", replace},
    {"indent", indent},
    {"format", format},
    {"center", center},
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round_number},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kFilters; }

}  // namespace butterfly::model::chat_template
