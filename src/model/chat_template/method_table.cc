// Methods of texts, lists and dicts. Those that change their value are refused, as by Jinja's sandbox.
#include <algorithm>

#include "model/chat_template/operators.h"
#include "model/chat_template/percent_format.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/tables.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::chat_template {

namespace {

using Args = const Arguments&;

template <Text (*map)(TextView)>
Value mapped(Budget& budget, const Value& self, Args arguments) {
  arguments.bind("the method", {});
  budget.allocate(self.text().size());
  return make_text(budget, map(self.view()));
}

template <bool left, bool right>
Value strip(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("strip", {"chars"});
  std::string_view text = self.text();
  budget.step(text.size() / 64);
  if (bound[0] == nullptr || bound[0]->is_none()) {
    if (left) text = python_strip_left(text);
    if (right) text = python_strip_right(text);
  } else {
    const std::string_view set = text_argument(bound[0], "strip: chars", "");
    if (left) text = python_strip_left(budget, text, set);
    if (right) text = python_strip_right(budget, text, set);
  }
  return make_text(budget, self.view().part(text));
}

// By runs of white space: the words, each seen once. What lies beyond the first `most` of them stays whole.
std::vector<std::string_view> split_space(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> words;
  for (size_t i = 0, begin = 0; i <= text.size();) {
    const CodePoint c = i < text.size() ? front_code_point(text.substr(i)) : CodePoint{' ', 1};
    if (python_is_space(c.value)) {
      if (i > begin) words.push_back(text.substr(begin, i - begin));
      begin = i + c.length;
    }
    i += c.length;
  }
  if (most < 0 || static_cast<int64_t>(words.size()) <= most) return words;
  const auto kept = static_cast<size_t>(most);
  if (from_right) {
    const size_t joined = words.size() - kept;  // these stay one, with the white space before them
    const std::string_view last = words[joined - 1];
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(joined - 1));
    words[0] = text.substr(0, static_cast<size_t>(last.data() + last.size() - text.data()));
  } else {
    const std::string_view first = words[kept];
    words.resize(kept + 1);
    words[kept] = text.substr(static_cast<size_t>(first.data() - text.data()));
  }
  return words;
}

std::vector<std::string_view> split_by(Budget& budget, std::string_view text, std::string_view by,
                                       int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = from_right ? find_last_text(budget, text, by) : find_text(budget, text, by);
    if (found == text.npos) break;
    parts.push_back(from_right ? text.substr(found + by.size()) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(found + by.size());
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// `parts` are views into the text of `self`.
Value list_of(Budget& budget, const Value& self, const std::vector<std::string_view>& parts) {
  Values items;
  for (const std::string_view part : parts) items.push_back(make_text(budget, self.view().part(part)));
  return make_list(budget, std::move(items));
}

template <bool from_right>
Value split(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("split", {"sep", "maxsplit"});
  const int64_t most = integer_argument(bound[1], "split: maxsplit", -1);
  budget.step(self.text().size() / 16);
  if (bound[0] == nullptr || bound[0]->is_none()) {
    return list_of(budget, self, split_space(self.text(), most, from_right));
  }
  const std::string_view by = text_argument(bound[0], "split: sep", "");
  if (by.empty()) fail(Errc::kInvalidArgument, "split: sep is empty");
  return list_of(budget, self, split_by(budget, self.text(), by, most, from_right));
}

template <bool from_right>
Value partition(Budget& budget, const Value& self, Args arguments) {
  const std::string_view text = self.text();
  const TextView whole = self.view();
  const std::string_view by = text_argument(arguments.bind("partition", {"sep"})[0], "partition: sep", "");
  if (by.empty()) fail(Errc::kInvalidArgument, "partition: sep is empty");
  const size_t found = from_right ? find_last_text(budget, text, by) : find_text(budget, text, by);
  TextView parts[3];
  if (found == text.npos) {
    parts[from_right ? 2 : 0] = whole;
  } else {
    parts[0] = whole.substr(0, found);
    parts[1] = whole.substr(found, by.size());
    parts[2] = whole.substr(found + by.size());
  }
  Values items;
  for (const TextView part : parts) items.push_back(make_text(budget, part));
  return make_list(budget, std::move(items), ListKind::kTuple);
}

// The part of the text that start and end leave.
Value part_of(Budget& budget, const Value& self, const Value* start, const Value* end) {
  if (start == nullptr && end == nullptr) return self;
  return slice_of(budget, self, start == nullptr ? Value(None()) : *start,
                  end == nullptr ? Value(None()) : *end, Value(None()));
}

template <bool at_end>
Value has_affix(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("startswith or endswith", {"affix", "start", "end"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "startswith and endswith need a text");
  const Value part = part_of(budget, self, bound[1], bound[2]);
  const std::string_view text = part.text();
  const auto matches = [&](const Value& affix) {
    const std::string_view wanted = text_argument(&affix, "startswith or endswith: the argument", "");
    budget.step(1 + wanted.size() / 64);
    return at_end ? text.ends_with(wanted) : text.starts_with(wanted);
  };
  if (const List* list = bound[0]->list(); list != nullptr && list->kind == ListKind::kTuple)
    return std::any_of(list->items.begin(), list->items.end(), matches);
  return matches(*bound[0]);
}

template <bool from_right, bool must>
Value find(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("find", {"sub", "start", "end"});
  const Value part = part_of(budget, self, bound[1], bound[2]);
  const std::string_view text = part.text();
  const std::string_view wanted = text_argument(bound[0], "find: sub", "");
  const size_t place = from_right ? find_last_text(budget, text, wanted) : find_text(budget, text, wanted);
  if (place == std::string::npos) {
    if (must) fail(Errc::kInvalidArgument, "index: the text is not found");
    return -1;
  }
  int64_t skipped = bound[1] == nullptr || bound[1]->is_none() ? 0 : bound[1]->integer();
  if (skipped < 0) skipped = std::max<int64_t>(0, skipped + length(self));
  return static_cast<int64_t>(character_count(text.substr(0, place))) + skipped;
}

Value count(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("count", {"sub"});
  const std::string_view wanted = text_argument(bound[0], "count: sub", "");
  budget.step(self.text().size() / 16);
  if (wanted.empty()) return length(self) + 1;
  return static_cast<int64_t>(split_by(budget, self.text(), wanted, -1, false).size()) - 1;
}

Value replace(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("replace", {"old", "new", "count"});
  if (bound[0] == nullptr || bound[1] == nullptr) fail(Errc::kInvalidArgument, "replace needs two texts");
  const std::string_view from = text_argument(bound[0], "replace: old", "");
  text_argument(bound[1], "replace: new", "");
  return built_text(budget, python_replace(budget, self.view(), from, bound[1]->view(),
                                           integer_argument(bound[2], "replace: count", -1)));
}

Value join(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("join", {"iterable"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "join needs a list");
  Text text;
  bool first = true;
  for (const Value& item : iterate(budget, *bound[0])) {
    const std::string_view part = text_argument(&item, "join: an item", "");
    budget.allocate(part.size() + self.text().size());
    if (!std::exchange(first, false)) text.append(self.view());
    text.append(item.view());
  }
  return built_text(budget, std::move(text));
}

template <bool suffix>
Value remove_affix(Budget& budget, const Value& self, Args arguments) {
  const std::string_view affix = text_argument(arguments.bind("removeprefix", {"affix"})[0], "the affix", "");
  std::string_view text = self.text();
  if (suffix ? text.ends_with(affix) : text.starts_with(affix))
    suffix ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  return make_text(budget, self.view().part(text));
}

// ljust (-1), rjust (1) and zfill (0).
template <int side>
Value justify(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("ljust, rjust or zfill", {"width", "fillchar"});
  const int64_t width = integer_argument(bound[0], "width", 0);
  if (side != 0) text_argument(bound[1], "fillchar", "");
  const TextView fill = side != 0 && bound[1] != nullptr ? bound[1]->view()
                                                         : TextView(side == 0 ? "0" : " ", Origin::kTemplate);
  if (character_count(fill.bytes) != 1) fail(Errc::kInvalidArgument, "fillchar must be one character");
  if (width <= length(self)) return self;
  const int64_t missing = width - length(self);
  budget.allocate(static_cast<size_t>(missing), fill.size());
  const bool sign = side == 0 && (self.text().starts_with('-') || self.text().starts_with('+'));
  const size_t before = side < 0 ? self.text().size() : sign ? 1 : 0;
  Text text(self.view().substr(0, before));
  for (int64_t i = 0; i < missing; ++i) text.append(fill);
  text.append(self.view().substr(before));
  return make_text(budget, std::move(text));
}

template <bool (*predicate)(uint32_t)>
Value all_characters(Budget& budget, const Value& self, Args) {
  budget.step(self.text().size() / 16);
  const auto list = characters(self.text());
  return !list.empty() && std::all_of(list.begin(), list.end(), [](std::string_view c) {
    return predicate(front_code_point(c).value);
  });
}

bool is_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) { return is_word_character(c) && !is_digit(c) && c != '_' && !is_mark(c); }
bool is_letter_or_digit(uint32_t c) { return is_letter(c) || is_digit(c); }

Value split_lines(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("splitlines", {"keepends"});
  return list_of(budget, self, python_split_lines(self.text(), flag_argument(bound[0], false)));
}

constexpr MethodRow kTextMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", split_lines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"replace", replace},
    {"join", join},
    {"upper", mapped<python_upper>},
    {"lower", mapped<python_lower>},
    {"casefold", mapped<python_lower>},
    {"capitalize", mapped<python_capitalize>},
    {"title", mapped<python_title>},
    {"ljust", justify<-1>},
    {"rjust", justify<1>},
    {"zfill", justify<0>},
    {"isdigit", all_characters<is_digit>},
    {"isdecimal", all_characters<is_digit>},
    {"isnumeric", all_characters<is_digit>},
    {"isalpha", all_characters<is_letter>},
    {"isalnum", all_characters<is_letter_or_digit>},
    {"isspace", all_characters<python_is_space>},
    {"isupper", [](Budget& b, const Value& v, Args) { return Value(apply_test(b, "upper", v, {})); }},
    {"islower", [](Budget& b, const Value& v, Args) { return Value(apply_test(b, "lower", v, {})); }},
    {"format", [](Budget& b, const Value& v,
                  Args arguments) { return built_text(b, brace_format(b, v.view(), arguments)); }},
};

Value dict_items(Budget& budget, const Value& self, Args arguments) {
  arguments.bind("items", {});
  Values pairs;
  for (const auto& [key, item] : self.dict()->entries)
    pairs.push_back(make_list(budget, {key, item}, ListKind::kTuple));
  return make_list(budget, std::move(pairs), ListKind::kRange);
}

Value dict_keys(Budget& budget, const Value& self, Args arguments) {
  arguments.bind("keys", {});
  return make_list(budget, iterate(budget, self), ListKind::kRange);
}

Value dict_values(Budget& budget, const Value& self, Args arguments) {
  arguments.bind("values", {});
  Values values;
  for (const auto& [key, item] : self.dict()->entries) values.push_back(item);
  return make_list(budget, std::move(values), ListKind::kRange);
}

Value dict_get(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("get", {"key", "default"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "get needs a key");
  if (const Value* found = dict_find(budget, *self.dict(), *bound[0])) return *found;
  return bound[1] == nullptr ? Value(None()) : *bound[1];
}

constexpr MethodRow kDictMethods[] = {
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"get", dict_get},
    {"copy", [](Budget&, const Value& self, Args) { return self; }},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
};

Value list_index(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("index", {"value"});
  const Values& items = self.list()->items;
  for (size_t i = 0; bound[0] != nullptr && i < items.size(); ++i)
    if (equals(budget, items[i], *bound[0])) return static_cast<int64_t>(i);
  fail(Errc::kInvalidArgument, "index: the value is not in the list");
}

Value list_count(Budget& budget, const Value& self, Args arguments) {
  const auto bound = arguments.bind("count", {"value"});
  const Values& items = self.list()->items;
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "count needs a value");
  return static_cast<int64_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return equals(budget, item, *bound[0]); }));
}

constexpr MethodRow kListMethods[] = {
    {"index", list_index},
    {"count", list_count},
    {"copy", [](Budget&, const Value& self, Args) { return self; }},
    {"append", nullptr},
    {"clear", nullptr},
    {"extend", nullptr},
    {"insert", nullptr},
    {"pop", nullptr},
    {"remove", nullptr},
    {"reverse", nullptr},
    {"sort", nullptr},
};

}  // namespace

std::span<const MethodRow> methods_of(const Value& value) {
  if (value.is_text()) return kTextMethods;
  if (value.dict() != nullptr) return kDictMethods;
  if (value.list() != nullptr && value.list()->kind <= ListKind::kTuple) return kListMethods;
  return {};
}

}  // namespace butterfly::model::chat_template
