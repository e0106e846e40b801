#include "model/chat_template/tables.h"

#include "model/chat_template/loop.h"
#include "model/chat_template/operators.h"

namespace butterfly::model::chat_template {

Value apply_filter(Budget& budget, std::string_view name, const Value& value, const Arguments& arguments) {
  for (const auto table : {text_filters(), list_filters()})
    for (const FilterRow& row : table)
      if (row.name == name) return row.apply(budget, value, arguments);
  fail(Errc::kUnsupported, "there is no filter '{}'", name);
}

bool apply_test(Budget& budget, std::string_view name, const Value& value, const Arguments& arguments) {
  for (const TestRow& row : tests())
    if (row.name == name) return row.apply(budget, value, arguments);
  fail(Errc::kUnsupported, "there is no test '{}'", name);
}

const MethodRow* find_method(const Value& value, std::string_view name) {
  for (const MethodRow& row : methods_of(value))
    if (row.name == name) return &row;
  return nullptr;
}

namespace {

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto size = static_cast<int64_t>(loop.items->items.size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return loop.level + 1;
  if (name == "depth0") return loop.level;
  if (name == "previtem")
    return index > 0 ? loop.items->items[loop.index - 1] : Value::undefined("loop.previtem");
  if (name == "nextitem")
    return index + 1 < size ? loop.items->items[loop.index + 1] : Value::undefined("loop.nextitem");
  return Value::undefined("loop." + std::string(name));
}

}  // namespace

Value attribute_of(Budget& budget, const Value& value, std::string_view name) {
  require_defined(value);
  if (Namespace* space = value.space()) {
    const Value* found = space->find(name);
    return found == nullptr ? Value::undefined(std::string(name)) : *found;
  }
  if (const Loop* loop = value.loop(); loop != nullptr && name != "cycle") return loop_attribute(*loop, name);
  if (find_method(value, name) != nullptr || value.loop() != nullptr) {
    budget.allocate(sizeof(Callable));
    if (value.depth() >= kValueDepthMax)
      fail(Errc::kInvalidArgument, "a value is nested deeper than {}", kValueDepthMax);
    return std::make_shared<const Callable>(Callable{std::string(name), value, nullptr, nullptr});
  }
  if (const Dict* dict = value.dict())
    if (const Value* found = dict->find(name)) return *found;
  return Value::undefined(std::string(name));
}

std::string_view text_argument(const Value* argument, std::string_view what, std::string_view absent) {
  if (argument == nullptr) return absent;
  require_defined(*argument);
  if (!argument->is_text())
    fail(Errc::kInvalidArgument, "{} must be a text, found {}", what, argument->type_name());
  return argument->text();
}

int64_t integer_argument(const Value* argument, std::string_view what, int64_t absent) {
  if (argument == nullptr) return absent;
  require_defined(*argument);
  if (!argument->is_int())
    fail(Errc::kInvalidArgument, "{} must be an integer, found {}", what, argument->type_name());
  return argument->integer();
}

bool flag_argument(const Value* argument, bool absent) {
  return argument == nullptr ? absent : argument->truthy();
}

}  // namespace butterfly::model::chat_template
