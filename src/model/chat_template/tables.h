// Filters, tests, methods and what they ask of the evaluator.
#pragma once
#include <span>
#include <string_view>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

struct FilterRow {
  std::string_view name;
  Value (*apply)(Budget& budget, const Value& value, const Arguments& arguments);
};
struct TestRow {
  std::string_view name;
  bool (*apply)(Budget& budget, const Value& value, const Arguments& arguments);
};
struct MethodRow {
  std::string_view name;
  Value (*apply)(Budget& budget, const Value& self,
                 const Arguments& arguments);  // null: it changes its value
};

std::span<const FilterRow> text_filters();
std::span<const FilterRow> list_filters();
std::span<const TestRow> tests();
// Of texts, lists, dicts; empty for others.
std::span<const MethodRow> methods_of(const Value& value);

// Fail when there is none of this name.
Value apply_filter(Budget& budget, std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(Budget& budget, std::string_view name, const Value& value, const Arguments& arguments);
const MethodRow* find_method(const Value& value, std::string_view name);

// value.name: a method, else an item; undefined when there is neither.
Value attribute_of(Budget& budget, const Value& value, std::string_view name);

// Arguments that must be of a kind, with what to say when they are not.
std::string_view text_argument(const Value* argument, std::string_view what, std::string_view absent);
int64_t integer_argument(const Value* argument, std::string_view what, int64_t absent);
bool flag_argument(const Value* argument, bool absent);

}  // namespace butterfly::model::chat_template
