#include "model/chat_template/operators.h"

#include <algorithm>
#include <cmath>

#include "model/chat_template/loop.h"
#include "model/chat_template/percent_format.h"
#include "model/chat_template/python_text.h"

namespace butterfly::model::chat_template {

namespace {

const char* op_text(Op op) {
  constexpr const char* kTexts[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kTexts[static_cast<size_t>(op)];
}

[[noreturn]] void fail_overflow(Op op) {
  fail(Errc::kUnsupported, "the result of {} is no integer of 64 bits", op_text(op));
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  int64_t result = 1;
  if (base == 0 || base == 1 || base == -1) {
    if (exponent == 0 || base == 1) return int64_t{1};
    return base == 0 ? int64_t{0} : exponent % 2 == 0 ? int64_t{1} : int64_t{-1};
  }
  for (int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow(Op::kPow);
  return result;
}

Value integer_arithmetic(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow(op);
      return result;
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow(op);
      return result;
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow(op);
      return result;
    case Op::kPow:
      return integer_power(a, b);
    default:
      break;
  }
  if (b == 0) fail(Errc::kInvalidArgument, "division by zero");
  if (op == Op::kDiv) return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {
    if (op == Op::kMod) return int64_t{0};
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) fail_overflow(op);
    return result;
  }
  // Towards minus infinity; the remainder has the sign of the divisor.
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Op::kMod) return adjust ? remainder + b : remainder;
  return a / b - (adjust ? 1 : 0);
}

Value real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kPow:
      return std::pow(a, b);
    default:
      break;
  }
  if (b == 0) fail(Errc::kInvalidArgument, "division by zero");
  if (op == Op::kDiv) return a / b;
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == Op::kMod) return remainder == 0 ? std::copysign(0.0, b) : remainder;
  const double quotient = (a - remainder) / b;
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Value repeat(Budget& budget, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  const auto times = static_cast<size_t>(count);
  if (value.is_text()) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(value.text().size(), times, &bytes)) bytes = SIZE_MAX;
    budget.allocate(bytes);
    Text text;
    if (bytes > 0)
      for (size_t i = 0; i < times; ++i) text.append(value.view());
    return built_text(budget, std::move(text));
  }
  const List& list = *value.list();
  size_t items = 0;
  if (__builtin_mul_overflow(list.items.size() * sizeof(Value), times, &items)) items = SIZE_MAX;
  budget.allocate(items);
  Values result;
  if (items > 0)
    for (size_t i = 0; i < times; ++i) result.insert(result.end(), list.items.begin(), list.items.end());
  return make_list(budget, std::move(result), list.kind);
}

bool is_sequence(const Value& value) {
  return value.is_text() || (value.list() != nullptr && value.list()->kind <= ListKind::kTuple);
}

// Python's rule for a bound of a slice in a sequence of `size`.
int64_t slice_bound(const Value& bound, int64_t size, int64_t step, bool is_start) {
  if (bound.is_none()) {
    if (is_start) return step > 0 ? 0 : size - 1;
    return step > 0 ? size : -1;
  }
  if (!bound.is_int())
    fail(Errc::kInvalidArgument, "a bound of a slice is an integer, found {}", bound.type_name());
  int64_t place = bound.integer();
  if (place < 0) place = place < -size ? -1 : place + size;
  if (step > 0) return std::clamp<int64_t>(place, 0, size);
  return std::clamp<int64_t>(place, -1, size - 1);
}

}  // namespace

void fail_undefined(const Value& value) {
  const std::string* name = value.undefined_name();
  fail(Errc::kInvalidArgument, "{} is undefined", name == nullptr ? "a value" : "'" + *name + "'");
}

void require_defined(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
}

bool equals(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_int() && b.is_int()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.is_text() && b.is_text()) {
    if (a.text().size() != b.text().size()) return false;
    budget.step(a.text().size() / 1024);
    return a.text() == b.text();
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return x->kind == y->kind && x->kind != ListKind::kIterator && x->items.size() == y->items.size() &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(),
                      [&](const Value& i, const Value& j) { return equals(budget, i, j); });
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    if (x == y) return true;
    return x->entries.size() == y->entries.size() &&
           std::all_of(x->entries.begin(), x->entries.end(), [&](const auto& entry) {
             const Value* other = dict_find(budget, *y, entry.first);
             return other != nullptr && equals(budget, entry.second, *other);
           });
  }
  return a.identity() != nullptr && a.identity() == b.identity();
}

int order(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_int() && b.is_int()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  if (a.is_number() && b.is_number()) return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  if (a.is_text() && b.is_text()) {
    // By bytes: for UTF-8 that is the order of the code points.
    const int result = a.text().compare(b.text());
    return result < 0 ? -1 : result > 0 ? 1 : 0;
  }
  if (const List* x = a.list(), *y = b.list();
      x != nullptr && y != nullptr && x->kind == y->kind && x->kind <= ListKind::kTuple) {
    const size_t common = std::min(x->items.size(), y->items.size());
    for (size_t i = 0; i < common; ++i)
      if (!equals(budget, x->items[i], y->items[i])) return order(budget, x->items[i], y->items[i]);
    return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size() ? 1 : 0;
  }
  require_defined(a);
  require_defined(b);
  fail(Errc::kInvalidArgument, "a {} and a {} have no order", a.type_name(), b.type_name());
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_text()) {
    require_defined(item);
    if (!item.is_text())
      fail(Errc::kInvalidArgument, "'in' a text needs a text on its left, found {}", item.type_name());
    return find_text(budget, container.text(), item.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict_find(budget, *dict, item) != nullptr;
  const Values items = iterate(budget, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& each) { return equals(budget, each, item); });
}

bool compare(Budget& budget, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEq:
      return equals(budget, a, b);
    case Op::kNe:
      return !equals(budget, a, b);
    case Op::kIn:
      return contains(budget, b, a);
    case Op::kNotIn:
      return !contains(budget, b, a);
    default:
      break;
  }
  if (a.is_number() && b.is_number() && (std::isnan(a.real()) || std::isnan(b.real()))) return false;
  const int result = order(budget, a, b);
  if (op == Op::kLt) return result < 0;
  if (op == Op::kLe) return result <= 0;
  return op == Op::kGt ? result > 0 : result >= 0;
}

Value arithmetic(Budget& budget, Op op, const Value& a, const Value& b) {
  require_defined(a);
  if (op == Op::kMod && a.is_text()) return make_text(budget, percent_format(budget, a.view(), b));
  require_defined(b);
  if (a.is_int() && b.is_int()) return integer_arithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.real(), b.real());
  if (op == Op::kAdd && a.is_text() && b.is_text()) {
    budget.allocate(a.text().size() + b.text().size());
    Text sum(a.view());
    sum.append(b.view());
    return built_text(budget, std::move(sum));
  }
  if (op == Op::kAdd && is_sequence(a) && is_sequence(b) && a.list() != nullptr && b.list() != nullptr &&
      a.list()->kind == b.list()->kind) {
    budget.allocate((a.list()->items.size() + b.list()->items.size()) * sizeof(Value));
    Values items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return make_list(budget, std::move(items), a.list()->kind);
  }
  if (op == Op::kMul && is_sequence(a) && b.is_int()) return repeat(budget, a, b.integer());
  if (op == Op::kMul && a.is_int() && is_sequence(b)) return repeat(budget, b, a.integer());
  fail(Errc::kInvalidArgument, "{} has no meaning for a {} and a {}", op_text(op), a.type_name(),
       b.type_name());
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_int()) return integer_arithmetic(Op::kSub, 0, value.integer());
  if (value.is_number()) return -value.real();
  fail(Errc::kInvalidArgument, "- has no meaning for a {}", value.type_name());
}

Values iterate(Budget& budget, const Value& value) {
  if (value.is_undefined()) return {};
  Values items;
  if (const List* list = value.list()) {
    budget.allocate(list->items.size() * sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    budget.allocate(dict->entries.size() * sizeof(Value));
    for (const auto& [key, item] : dict->entries) items.push_back(key);
    return items;
  }
  if (value.is_text()) {
    for (const std::string_view character : characters(value.text()))
      items.push_back(make_text(budget, value.view().part(character)));
    return items;
  }
  fail(Errc::kInvalidArgument, "a {} has no items to walk over", value.type_name());
}

int64_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return static_cast<int64_t>(character_count(value.text()));
  if (const List* list = value.list(); list != nullptr && list->kind != ListKind::kIterator)
    return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  fail(Errc::kInvalidArgument, "a {} has no length", value.type_name());
}

Value item_of(Budget& budget, const Value& value, const Value& key) {
  require_defined(value);
  if (const Dict* dict = value.dict()) {
    const Value* found = dict_find(budget, *dict, key);
    return found == nullptr ? Value::undefined(key.is_text() ? key.text() : "a key of a dict") : *found;
  }
  if (!key.is_int()) return Value::undefined(key.is_text() ? key.text() : "an item");
  int64_t place = key.integer();
  if (value.is_text()) {
    budget.step(value.text().size() / 64);
    const auto list = characters(value.text());
    const auto size = static_cast<int64_t>(list.size());
    if (place < 0) place += size;
    if (place < 0 || place >= size) return Value::undefined("an item beyond the end");
    return make_text(budget, value.view().part(list[static_cast<size_t>(place)]));
  }
  const List* list = value.list();
  if (list == nullptr || list->kind == ListKind::kIterator) return Value::undefined("an item");
  const auto size = static_cast<int64_t>(list->items.size());
  if (place < 0) place += size;
  if (place < 0 || place >= size) return Value::undefined("an item beyond the end");
  return list->items[static_cast<size_t>(place)];
}

Value slice_of(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step) {
  require_defined(value);
  const bool is_list = value.list() != nullptr && value.list()->kind != ListKind::kIterator;
  if (!is_list && !value.is_text()) fail(Errc::kInvalidArgument, "a {} has no slices", value.type_name());
  if (!step.is_none() && !step.is_int())
    fail(Errc::kInvalidArgument, "the step of a slice is an integer, found {}", step.type_name());
  const int64_t by = step.is_none() ? 1 : step.integer();
  if (by == 0) fail(Errc::kInvalidArgument, "the step of a slice is 0");
  std::vector<std::string_view> letters;
  if (!is_list) {
    budget.step(value.text().size() / 16);
    letters = characters(value.text());
  }
  const auto size = static_cast<int64_t>(is_list ? value.list()->items.size() : letters.size());
  const int64_t begin = slice_bound(start, size, by, true);
  const int64_t end = slice_bound(stop, size, by, false);
  Values items;
  Text text;
  for (int64_t i = begin; by > 0 ? i < end : i > end;) {
    const auto place = static_cast<size_t>(i);
    if (is_list) {
      items.push_back(value.list()->items[place]);
    } else {
      text.append(value.view().part(letters[place]));
    }
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (is_list) return make_list(budget, std::move(items), value.list()->kind);
  return make_text(budget, std::move(text));
}

}  // namespace butterfly::model::chat_template
