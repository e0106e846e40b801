// Filters on lists and dicts.
#include <algorithm>
#include <charconv>

#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/tables.h"

namespace butterfly::model::chat_template {

namespace {

using Args = const Arguments&;

// "a.b.0" of a value; a whole number is an index.
Value path_of(Budget& budget, Value value, const Value& path) {
  if (path.is_int()) return item_of(budget, value, path);
  if (!path.is_text()) fail(Errc::kInvalidArgument, "attribute must be a text, found {}", path.type_name());
  std::string_view rest = path.text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    // As a subscript would: an item first, then an attribute.
    const Value key = is_index ? Value(index) : Value(part);
    Value next = item_of(budget, value, key);
    value = next.is_undefined() && !is_index ? attribute_of(budget, value, part) : std::move(next);
    if (dot == rest.npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Arguments without_first(Args arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& name_argument(Args arguments, size_t index, const char* what) {
  if (arguments.positional.size() <= index || !arguments.positional[index].is_text())
    fail(Errc::kInvalidArgument, "{} needs a name", what);
  return arguments.positional[index].text();
}

// As in Jinja2 nothing is looked at where there is nothing: none, undefined, an empty list.
Value map(Budget& budget, const Value& value, Args arguments) {
  Values result;
  if (!value.truthy()) return make_list(budget, {}, ListKind::kIterator);
  if (arguments.positional.empty()) {
    const auto bound = arguments.bind("map", {"", "attribute", "default"});
    if (bound[1] == nullptr) fail(Errc::kInvalidArgument, "map needs the name of a filter or an attribute");
    for (const Value& item : iterate(budget, value)) {
      Value part = path_of(budget, item, *bound[1]);
      result.push_back(part.is_undefined() && bound[2] != nullptr ? *bound[2] : std::move(part));
    }
  } else {
    const std::string& name = name_argument(arguments, 0, "map");
    const Arguments rest = without_first(arguments, 1);
    for (const Value& item : iterate(budget, value)) result.push_back(apply_filter(budget, name, item, rest));
  }
  return make_list(budget, std::move(result), ListKind::kIterator);
}

// select, reject, selectattr and rejectattr.
template <bool keep, bool by_attribute>
Value choose(Budget& budget, const Value& value, Args arguments) {
  if (!value.truthy()) return make_list(budget, {}, ListKind::kIterator);
  constexpr size_t kTestAt = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty())
    fail(Errc::kInvalidArgument, "selectattr needs an attribute");
  const bool has_test = arguments.positional.size() > kTestAt;
  const std::string* test = has_test ? &name_argument(arguments, kTestAt, "select") : nullptr;
  const Arguments rest = without_first(arguments, kTestAt + (has_test ? 1 : 0));
  Values result;
  for (const Value& item : iterate(budget, value)) {
    const Value part = by_attribute ? path_of(budget, item, arguments.positional[0]) : item;
    const bool passes = has_test ? apply_test(budget, *test, part, rest) : part.truthy();
    if (passes == keep) result.push_back(item);
  }
  return make_list(budget, std::move(result), ListKind::kIterator);
}

Value join(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("join", {"d", "attribute"});
  const Text between = bound[0] == nullptr ? Text() : python_str(budget, *bound[0]);
  Text text;
  bool first = true;
  for (const Value& item : iterate(budget, value)) {
    const bool by_attribute = bound[1] != nullptr && !bound[1]->is_none();
    const Text part = python_str(budget, by_attribute ? path_of(budget, item, *bound[1]) : item);
    budget.allocate(part.size() + between.size());
    if (!std::exchange(first, false)) text.append(between.view());
    text.append(part.view());
  }
  return built_text(budget, std::move(text));
}

Value first(Budget& budget, const Value& value, Args) {
  const Values items = iterate(budget, value);
  return items.empty() ? Value::undefined("the first item of nothing") : items.front();
}

Value last(Budget& budget, const Value& value, Args) {
  const Values items = iterate(budget, value);
  return items.empty() ? Value::undefined("the last item of nothing") : items.back();
}

Value count(Budget& budget, const Value& value, Args arguments) {
  arguments.bind("length", {});
  if (value.is_text()) budget.step(value.text().size() / 64);
  return length(value);
}

Value to_list(Budget& budget, const Value& value, Args) { return make_list(budget, iterate(budget, value)); }

Value items(Budget& budget, const Value& value, Args) {
  Values pairs;
  if (value.is_undefined()) return make_list(budget, {}, ListKind::kIterator);
  if (value.dict() == nullptr)
    fail(Errc::kInvalidArgument, "items needs a dict, found {}", value.type_name());
  for (const auto& [key, item] : value.dict()->entries)
    pairs.push_back(make_list(budget, {key, item}, ListKind::kTuple));
  return make_list(budget, std::move(pairs), ListKind::kIterator);
}

Value default_value(Budget&, const Value& value, Args arguments) {
  const auto bound = arguments.bind("default", {"default_value", "boolean"});
  const bool replaced = value.is_undefined() || (flag_argument(bound[1], false) && !value.truthy());
  if (!replaced) return value;
  return bound[0] == nullptr ? Value("") : *bound[0];
}

Value reverse(Budget& budget, const Value& value, Args) {
  Values list = iterate(budget, value);
  std::reverse(list.begin(), list.end());
  if (!value.is_text()) return make_list(budget, std::move(list), ListKind::kIterator);
  Text text;
  for (const Value& item : list) text.append(item.view());
  return make_text(budget, std::move(text));
}

Value without_case(Budget& budget, const Value& value) {
  return value.is_text() ? make_text(budget, python_lower(value.view())) : value;
}

// The items with what they are compared by.
using Keyed = std::vector<std::pair<Value, Value>>;
Keyed keyed(Budget& budget, const Value& value, const Value* attribute, bool case_sensitive) {
  Keyed list;
  for (const Value& item : iterate(budget, value)) {
    Value key = attribute != nullptr && !attribute->is_none() ? path_of(budget, item, *attribute) : item;
    list.emplace_back(case_sensitive ? std::move(key) : without_case(budget, key), item);
  }
  return list;
}

// Merges: an order that contradicts itself (NaN) or that throws cannot lead it out of the list.
void sort_by_key(Budget& budget, Keyed& list, bool descending) {
  std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) {
    // Equal ones need no order: nothing but None can be sorted.
    if (equals(budget, a.first, b.first)) return false;
    return descending ? order(budget, b.first, a.first) < 0 : order(budget, a.first, b.first) < 0;
  });
}

Values second_of(Keyed list) {
  Values result;
  for (auto& [key, item] : list) result.push_back(std::move(item));
  return result;
}

Value sort(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  Keyed list = keyed(budget, value, bound[2], flag_argument(bound[1], false));
  sort_by_key(budget, list, flag_argument(bound[0], false));
  return make_list(budget, second_of(std::move(list)));
}

Value unique(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("unique", {"case_sensitive", "attribute"});
  Values result;
  Values keys;
  for (const auto& entry : keyed(budget, value, bound[1], flag_argument(bound[0], false))) {
    const auto same = [&](const Value& each) { return equals(budget, each, entry.first); };
    if (std::any_of(keys.begin(), keys.end(), same)) continue;
    keys.push_back(entry.first);
    result.push_back(entry.second);
  }
  return make_list(budget, std::move(result), ListKind::kIterator);
}

Value dictsort(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  const std::string_view by = text_argument(bound[1], "dictsort: by", "key");
  if (by != "key" && by != "value")
    fail(Errc::kInvalidArgument, "dictsort: by must be key or value, found {}", by);
  const Value pairs = items(budget, value, arguments);
  const Value index(by == "key" ? 0 : 1);
  Keyed list = keyed(budget, pairs, &index, flag_argument(bound[0], false));
  sort_by_key(budget, list, flag_argument(bound[2], false));
  return make_list(budget, second_of(std::move(list)));
}

template <int sign>
Value extreme(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("min or max", {"case_sensitive", "attribute"});
  const Keyed list = keyed(budget, value, bound[1], flag_argument(bound[0], false));
  if (list.empty()) return Value::undefined("the least or greatest item of nothing");
  size_t best = 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (order(budget, list[i].first, list[best].first) * sign > 0) best = i;
  return list[best].second;
}

Value sum(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("sum", {"attribute", "start"});
  Value total = bound[1] == nullptr ? Value(0) : *bound[1];
  const bool by_attribute = bound[0] != nullptr && !bound[0]->is_none();
  for (const Value& item : iterate(budget, value))
    total = arithmetic(budget, Op::kAdd, total, by_attribute ? path_of(budget, item, *bound[0]) : item);
  return total;
}

Value batch(Budget& budget, const Value& value, Args arguments) {
  const auto bound = arguments.bind("batch", {"linecount", "fill_with"});
  const auto size =
      static_cast<size_t>(std::max<int64_t>(integer_argument(bound[0], "batch: linecount", 0), 1));
  Values rows, row;
  for (Value& item : iterate(budget, value)) {
    row.push_back(std::move(item));
    if (row.size() == size) rows.push_back(make_list(budget, std::exchange(row, {})));
  }
  if (!row.empty()) {
    const bool fill = bound[1] != nullptr && !bound[1]->is_none();
    if (fill) budget.allocate(size, sizeof(Value));
    while (fill && row.size() < size) row.push_back(*bound[1]);
    rows.push_back(make_list(budget, std::move(row)));
  }
  return make_list(budget, std::move(rows), ListKind::kIterator);
}

Value attr(Budget& budget, const Value& value, Args arguments) {
  const std::string& name = name_argument(arguments, 0, "attr");
  // Attributes only: the items of a dict are none.
  if (value.dict() != nullptr && find_method(value, name) == nullptr) return Value::undefined(name);
  return attribute_of(budget, value, name);
}

constexpr FilterRow kFilters[] = {
    {"length", count},
    {"count", count},
    {"default", default_value},
    {"d", default_value},
    {"join", join},
    {"first", first},
    {"last", last},
    {"list", to_list},
    {"items", items},
    {"map", map},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"reverse", reverse},
    {"sort", sort},
    {"unique", unique},
    {"dictsort", dictsort},
    {"min", extreme<-1>},
    {"max", extreme<1>},
    {"sum", sum},
    {"batch", batch},
    {"attr", attr},
};

}  // namespace

std::span<const FilterRow> list_filters() { return kFilters; }

}  // namespace butterfly::model::chat_template
