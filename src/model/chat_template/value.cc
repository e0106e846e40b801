#include "model/chat_template/value.h"

#include <algorithm>

#include "model/chat_template/loop.h"
#include "model/chat_template/operators.h"

namespace butterfly::model::chat_template {

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_int()) return integer() != 0;
  if (is<double>()) return real() != 0;
  if (is_text()) return !text().empty();
  if (const List* values = list()) return values->kind == ListKind::kIterator || !values->items.empty();
  if (const Dict* values = dict()) return !values->entries.empty();
  return true;
}

int Value::depth() const {
  if (const List* values = list()) return values->depth;
  if (const Dict* values = dict()) return values->depth;
  if (const Callable* function = callable()) return function->self.depth() + 1;
  if (const Loop* values = loop()) return values->items->depth + 1;
  return 0;
}

const char* Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is<double>()) return "float";
  if (is_text()) return "str";
  if (dict() != nullptr) return "dict";
  if (callable() != nullptr) return "function";
  if (loop() != nullptr) return "LoopContext";
  if (space() != nullptr) return "Namespace";
  constexpr const char* kNames[] = {"list", "tuple", "range", "generator"};
  return kNames[static_cast<size_t>(list()->kind)];
}

const void* Value::identity() const {
  if (is_text()) return std::get<SharedText>(storage_).get();
  if (const void* values = list()) return values;
  if (const void* values = dict()) return values;
  if (const void* values = callable()) return values;
  if (const void* values = loop()) return values;
  return space();
}

namespace {

void check_depth(int depth) {
  if (depth > kValueDepthMax)
    fail(Errc::kInvalidArgument, "a list or dict is nested deeper than {}", kValueDepthMax);
}

}  // namespace

Value make_list(Budget& budget, Values items, ListKind kind) {
  budget.allocate(sizeof(List) + items.size() * sizeof(Value));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  check_depth(depth + 1);
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->kind = kind;
  list->depth = depth + 1;
  return std::shared_ptr<const List>(std::move(list));
}

Value make_text(Budget& budget, Text text) {
  budget.allocate(text.memory() + sizeof(Text));
  return Value(std::move(text));
}

Value built_text(Budget& budget, Text text) {
  budget.allocate(text.memory() - text.size());
  return Value(std::move(text));
}

void DictBuilder::add(Value key, Value value) {
  budget_.allocate(2 * sizeof(Value) + 64);
  dict_->depth = std::max({dict_->depth, key.depth() + 1, value.depth() + 1});
  check_depth(dict_->depth);
  if (key.dict() != nullptr || (key.list() != nullptr && key.list()->kind != ListKind::kTuple))
    fail(Errc::kInvalidArgument, "a {} cannot be the key of a dict", key.type_name());
  if (const Value* old = dict_find(budget_, *dict_, key)) {
    *const_cast<Value*>(old) = std::move(value);  // ours: the dict is not shared yet
    return;
  }
  // The view is into the shared text, which stays where it is when the entries move.
  if (key.is_text()) dict_->by_text.emplace(key.text(), dict_->entries.size());
  dict_->entries.emplace_back(std::move(key), std::move(value));
}

Value DictBuilder::take() { return std::shared_ptr<const Dict>(std::move(dict_)); }

const Value* dict_find(Budget& budget, const Dict& dict, const Value& key) {
  if (key.is_text()) return dict.find(key.text());
  for (const auto& [name, value] : dict.entries)
    if (equals(budget, name, key)) return &value;
  return nullptr;
}

std::vector<const Value*> Arguments::bind(std::string_view what,
                                          std::initializer_list<const char*> names) const {
  if (positional.size() > names.size())
    fail(Errc::kInvalidArgument, "{} takes {} arguments at most, found {}", what, names.size(),
         positional.size());
  std::vector<const Value*> bound(names.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto place = std::find(names.begin(), names.end(), std::string_view(name));
    if (place == names.end()) fail(Errc::kInvalidArgument, "{} has no argument '{}'", what, name);
    const Value*& slot = bound[static_cast<size_t>(place - names.begin())];
    if (slot != nullptr) fail(Errc::kInvalidArgument, "{}: argument '{}' is given twice", what, name);
    slot = &value;
  }
  return bound;
}

}  // namespace butterfly::model::chat_template
