// The values of a template: Python's, as far as templates see them. All but namespaces never change.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "model/chat_template/limits.h"
#include "model/chat_template/text.h"

namespace butterfly::model::chat_template {

struct List;
struct Dict;
struct Callable;
struct Loop;
struct Namespace;

struct Undefined {
  std::shared_ptr<const std::string> name;  // what was asked for, for the message when it is used
};
struct None {};

// Cheap to copy: texts, lists and dicts are shared. One rendering, one thread: but for the constants of a
// template, which never change.
class Value {
 public:
  using SharedText = std::shared_ptr<const Text>;
  using Storage = std::variant<Undefined, None, bool, int64_t, double, SharedText,
                               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                               std::shared_ptr<const Callable>, std::shared_ptr<const Loop>, Namespace*>;

  Value() = default;  // undefined
  Value(None none) : storage_(none) {}
  Value(bool value) : storage_(value) {}
  Value(int64_t value) : storage_(value) {}
  Value(int value) : storage_(int64_t{value}) {}
  Value(double value) : storage_(value) {}
  Value(Text text) : storage_(std::make_shared<const Text>(std::move(text))) {}
  // Plain texts count as input: see Origin.
  Value(std::string text) : Value(Text(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const List> list) : storage_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : storage_(std::move(dict)) {}
  Value(std::shared_ptr<const Callable> callable) : storage_(std::move(callable)) {}
  Value(std::shared_ptr<const Loop> loop) : storage_(std::move(loop)) {}
  Value(Namespace* space) : storage_(space) {}  // owned by the evaluator

  // Words of the template, or of the program for it.
  static Value own(std::string_view text) { return Text(std::string(text), Origin::kTemplate); }

  static Value undefined(std::string name) {
    Value value;
    value.storage_ = Undefined{std::make_shared<const std::string>(std::move(name))};
    return value;
  }

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(storage_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_bool() const { return is<bool>(); }
  bool is_int() const { return is<int64_t>() || is_bool(); }  // a bool is an int, as in Python
  bool is_number() const { return is_int() || is<double>(); }
  bool is_text() const { return is<SharedText>(); }

  // To look at; what becomes part of another text is taken from view().
  const std::string& text() const { return std::get<SharedText>(storage_)->bytes(); }
  TextView view() const { return std::get<SharedText>(storage_)->view(); }
  int64_t integer() const {
    return is_bool() ? int64_t{std::get<bool>(storage_)} : std::get<int64_t>(storage_);
  }
  double real() const { return is<double>() ? std::get<double>(storage_) : static_cast<double>(integer()); }
  // Null when it is none.
  const List* list() const { return pointer<List>(); }
  const Dict* dict() const { return pointer<Dict>(); }
  const Callable* callable() const { return pointer<Callable>(); }
  const Loop* loop() const { return pointer<Loop>(); }
  Namespace* space() const { return is<Namespace*>() ? std::get<Namespace*>(storage_) : nullptr; }
  const std::string* undefined_name() const {
    const auto* undefined = std::get_if<Undefined>(&storage_);
    return undefined == nullptr ? nullptr : undefined->name.get();
  }
  std::shared_ptr<const List> shared_list() const { return std::get<std::shared_ptr<const List>>(storage_); }

  bool truthy() const;
  int depth() const;              // levels of lists and dicts; never above kValueDepthMax
  const char* type_name() const;  // Python's: "str", "int", ...
  const void* identity() const;   // of shared values; null for others

 private:
  template <typename T>
  const T* pointer() const {
    const auto* shared = std::get_if<std::shared_ptr<const T>>(&storage_);
    return shared == nullptr ? nullptr : shared->get();
  }

  Storage storage_;
};

using Values = std::vector<Value>;

enum class ListKind { kList, kTuple, kRange, kIterator };

struct List {
  Values items;
  ListKind kind = ListKind::kList;
  int depth = 1;
};

// In the order of insertion. Found by text in constant time, by other keys by looking at each.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string_view, size_t> by_text;
  int depth = 1;

  const Value* find(std::string_view key) const {
    const auto found = by_text.find(key);
    return found == by_text.end() ? nullptr : &entries[found->second].second;
  }
};

// A name with values that `set` changes. Nothing owns one but the evaluator: so they can refer to each other.
struct Namespace {
  std::vector<std::pair<std::string, Value>> values;

  Value* find(std::string_view name) {
    for (auto& [key, value] : values)
      if (key == name) return &value;
    return nullptr;
  }
};

// Fails when it is nested too deeply.
Value make_list(Budget& budget, Values items, ListKind kind = ListKind::kList);
Value make_text(Budget& budget, Text text);
inline Value make_text(Budget& budget, TextView text) { return make_text(budget, Text(text)); }
// Of a text whose bytes were counted as they were put together.
Value built_text(Budget& budget, Text text);

// A later entry of the same key replaces the value of the earlier one and keeps its place. One thread.
class DictBuilder {
 public:
  explicit DictBuilder(Budget& budget) : budget_(budget), dict_(std::make_shared<Dict>()) {}
  void add(Value key, Value value);
  Value take();

 private:
  Budget& budget_;
  std::shared_ptr<Dict> dict_;
};

const Value* dict_find(Budget& budget, const Dict& dict, const Value& key);

// Arguments of a call, a filter or a test.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  // Sorted to `names`; null where one is absent. Fails when there are others.
  std::vector<const Value*> bind(std::string_view what, std::initializer_list<const char*> names) const;
};

}  // namespace butterfly::model::chat_template
