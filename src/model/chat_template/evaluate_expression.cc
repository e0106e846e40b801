// The part of the evaluator for expressions and calls.
#include <algorithm>
#include <iterator>

#include "model/chat_template/evaluator.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/scope_inner.h"
#include "model/chat_template/tables.h"

namespace butterfly::model::chat_template {

namespace {

constexpr int64_t kRangeMax = 100'000;  // Jinja's sandbox refuses longer ones
constexpr std::string_view kGlobals[] = {"namespace", "range", "raise_exception", "strftime_now", "dict"};

}  // namespace

bool is_global_function(std::string_view name) {
  return std::find(std::begin(kGlobals), std::end(kGlobals), name) != std::end(kGlobals);
}

Value Evaluator::evaluate(const Expr& expr) {
  const Budget::Level level(budget_);
  budget_.step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
      return name(expr);
    case ExprKind::kList:
      return list(expr, ListKind::kList);
    case ExprKind::kTuple:
      return list(expr, ListKind::kTuple);
    case ExprKind::kDict:
      return dict(expr);
    case ExprKind::kAttr:
      return attribute_of(budget_, evaluate(*expr.operands[0]), expr.name);
    case ExprKind::kItem:
      return item(expr);
    case ExprKind::kSlice:
      return slice(expr);
    case ExprKind::kCall:
      return call(expr, nullptr);
    case ExprKind::kFilter:
      return filter(expr, nullptr);
    case ExprKind::kTest:
      return test(expr);
    case ExprKind::kNot:
      return !evaluate(*expr.operands[0]).truthy();
    case ExprKind::kNeg:
      return negate(evaluate(*expr.operands[0]));
    case ExprKind::kPos:
      return negate(negate(evaluate(*expr.operands[0])));
    case ExprKind::kAnd: {
      Value left = evaluate(*expr.operands[0]);
      return left.truthy() ? evaluate(*expr.operands[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = evaluate(*expr.operands[0]);
      return left.truthy() ? left : evaluate(*expr.operands[1]);
    }
    case ExprKind::kCompare:
      return compare_chain(expr);
    case ExprKind::kConcat:
      return concat(expr);
    case ExprKind::kCond: {
      if (evaluate(*expr.operands[1]).truthy()) return evaluate(*expr.operands[0]);
      return expr.operands[2] == nullptr ? Value::undefined("the else of an if")
                                         : evaluate(*expr.operands[2]);
    }
    case ExprKind::kSpread:
      fail(Errc::kInvalidArgument, "* stands outside of a call");
    case ExprKind::kBinary:
      break;
  }
  const Value left = evaluate(*expr.operands[0]);
  const Value right = evaluate(*expr.operands[1]);
  line_ = expr.line;
  return arithmetic(budget_, expr.ops[0], left, right);
}

Value Evaluator::name(const Expr& expr) {
  if (const Value* found = scope_->find(expr.name)) return *found;
  if (is_global_function(expr.name))
    return std::make_shared<const Callable>(Callable{expr.name, Value(), nullptr, nullptr});
  return Value::undefined(expr.name);
}

Value Evaluator::item(const Expr& expr) {
  const Value object = evaluate(*expr.operands[0]);
  const Value key = evaluate(*expr.operands[1]);
  Value found = item_of(budget_, object, key);
  // An item first, then an attribute; the dot looks the other way round.
  if (found.is_undefined() && key.is_text()) return attribute_of(budget_, object, key.text());
  return found;
}

Value Evaluator::slice(const Expr& expr) {
  const Value object = evaluate(*expr.operands[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i)
    bounds[i] = expr.operands[i + 1] == nullptr ? Value(None()) : evaluate(*expr.operands[i + 1]);
  return slice_of(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Value Evaluator::list(const Expr& expr, ListKind kind) {
  Values items;
  for (const ExprPtr& operand : expr.operands) items.push_back(evaluate(*operand));
  return make_list(budget_, std::move(items), kind);
}

Value Evaluator::dict(const Expr& expr) {
  DictBuilder entries(budget_);
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    Value key = evaluate(*expr.operands[i]);
    entries.add(std::move(key), evaluate(*expr.operands[i + 1]));
  }
  return entries.take();
}

Value Evaluator::compare_chain(const Expr& expr) {
  Value left = evaluate(*expr.operands[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.operands[i + 1]);
    if (!compare(budget_, expr.ops[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::concat(const Expr& expr) {
  Text text;
  for (const ExprPtr& operand : expr.operands) {
    const Text part = python_str(budget_, evaluate(*operand));
    budget_.allocate(part.size());
    text.append(part.view());
  }
  return built_text(budget_, std::move(text));
}

Arguments Evaluator::arguments(const Expr& expr) {
  Arguments arguments;
  for (size_t i = 1; i < expr.operands.size(); ++i) {
    if (expr.operands[i]->kind == ExprKind::kSpread) {
      for (Value& value : iterate(budget_, evaluate(*expr.operands[i]->operands[0])))
        arguments.positional.push_back(std::move(value));
    } else {
      arguments.positional.push_back(evaluate(*expr.operands[i]));
    }
  }
  for (const auto& [name, expression] : expr.named) {
    Value value = evaluate(*expression);
    if (!name.empty()) {
      arguments.named.emplace_back(name, std::move(value));
      continue;
    }
    if (value.dict() == nullptr) fail(Errc::kInvalidArgument, "** needs a dict, found {}", value.type_name());
    for (const auto& [key, each] : value.dict()->entries) {
      if (!key.is_text()) fail(Errc::kInvalidArgument, "** needs names, found a {}", key.type_name());
      arguments.named.emplace_back(key.text(), each);
    }
  }
  return arguments;
}

// The innermost filter of a block has no operand in the tree: it is `operand`.
Value Evaluator::filter(const Expr& expr, const Value* operand) {
  const Budget::Level level(budget_);
  const ExprPtr& inner = expr.operands[0];
  const Value value = inner == nullptr     ? *operand
                      : operand != nullptr ? filter(*inner, operand)
                                           : evaluate(*inner);
  const Arguments given = arguments(expr);
  line_ = expr.line;
  return apply_filter(budget_, expr.name, value, given);
}

Value Evaluator::test(const Expr& expr) {
  const Value value = evaluate(*expr.operands[0]);
  return apply_test(budget_, expr.name, value, arguments(expr));
}

// space.name.append(value) and space.name.pop(index): values do not change, but a namespace may get another
// one, so the list is made anew and pays for it. Nothing: the call is not of this kind.
std::optional<Value> Evaluator::change_list(const Expr& expr) {
  const Expr& method = *expr.operands[0];
  if (method.kind != ExprKind::kAttr || (method.name != "append" && method.name != "pop"))
    return std::nullopt;
  const Expr& field = *method.operands[0];
  if (field.kind != ExprKind::kAttr) return std::nullopt;
  const Value holder = evaluate(*field.operands[0]);
  if (holder.space() == nullptr) return std::nullopt;
  const Value* held = holder.space()->find(field.name);
  if (held == nullptr || held->list() == nullptr || held->list()->kind != ListKind::kList)
    return std::nullopt;
  const Arguments given = arguments(expr);  // may give the namespace something else
  line_ = expr.line;
  Value* place = holder.space()->find(field.name);
  if (place == nullptr || place->list() == nullptr) return std::nullopt;
  budget_.allocate(place->list()->items.size() + 1, sizeof(Value));
  Values items = place->list()->items;
  if (method.name == "append") {
    const auto bound = given.bind("append", {"value"});
    if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "append needs a value");
    items.push_back(*bound[0]);
    *place = make_list(budget_, std::move(items));
    return Value(None());
  }
  const auto bound = given.bind("pop", {"index"});
  const auto size = static_cast<int64_t>(items.size());
  int64_t index = integer_argument(bound[0], "the index", -1);
  if (index < 0) index += size;
  if (index < 0 || index >= size)
    fail(Errc::kInvalidArgument, "pop: there is no item {} in a list of {}", index, size);
  const Value taken = items[static_cast<size_t>(index)];
  items.erase(items.begin() + static_cast<ptrdiff_t>(index));
  *place = make_list(budget_, std::move(items));
  return taken;
}

Value Evaluator::call(const Expr& expr, const Value* caller) {
  if (auto changed = change_list(expr)) return *std::move(changed);
  const Value function = evaluate(*expr.operands[0]);
  Arguments given = arguments(expr);
  line_ = expr.line;
  return call_value(function, std::move(given), caller);
}

Value Evaluator::call_value(const Value& function, Arguments given, const Value* caller) {
  require_defined(function);
  if (const Loop* loop = function.loop()) return call_loop(*loop, given);
  const Callable* callable = function.callable();
  if (callable == nullptr) fail(Errc::kInvalidArgument, "a {} cannot be called", function.type_name());
  if (callable->macro != nullptr) return call_macro(*callable, std::move(given), caller);
  if (const Loop* loop = callable->self.loop()) {
    if (given.positional.empty()) fail(Errc::kInvalidArgument, "loop.cycle needs values");
    return given.positional[loop->index % given.positional.size()];
  }
  if (callable->self.is_undefined()) return call_global(callable->name, given);
  const MethodRow* method = find_method(callable->self, callable->name);
  if (method->apply == nullptr)
    fail(Errc::kInvalidArgument, "{} of a {} changes it, which templates may not do", callable->name,
         callable->self.type_name());
  return method->apply(budget_, callable->self, given);
}

Value Evaluator::call_macro(const Callable& callable, Arguments given, const Value* caller) {
  const Budget::Level level(budget_);
  const Stmt& macro = *callable.macro;
  if (given.positional.size() > macro.parameters.size())
    fail(Errc::kInvalidArgument, "macro {} takes {} arguments, found {}", macro.name, macro.parameters.size(),
         given.positional.size());
  // Without ownership: kept_ has the scope for as long as this evaluator lives.
  const Inner scope(*this, std::shared_ptr<Scope>(std::shared_ptr<Scope>(), callable.scope));
  if (caller != nullptr) scope_->set("caller", *caller);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, absent] = macro.parameters[i];
    const Value* value = i < given.positional.size() ? &given.positional[i] : nullptr;
    for (auto& [key, each] : given.named) {
      if (key != name) continue;
      if (value != nullptr) fail(Errc::kInvalidArgument, "macro {}: '{}' is given twice", macro.name, name);
      value = &each;
    }
    scope_->set(name, value != nullptr    ? *value
                      : absent != nullptr ? evaluate(*absent)
                                          : Value::undefined(name));
  }
  for (const auto& [key, value] : given.named) {
    bool known = key == "caller";
    if (known) scope_->set(key, value);
    for (const auto& [name, absent] : macro.parameters) known |= name == key;
    if (!known) fail(Errc::kInvalidArgument, "macro {} has no argument '{}'", macro.name, key);
  }
  return capture(macro.body);
}

Value Evaluator::call_loop(const Loop& loop, const Arguments& given) {
  const Budget::Level level(budget_);
  if (loop.recursive == nullptr) fail(Errc::kInvalidArgument, "loop is called, but it is not recursive");
  const auto bound = given.bind("loop", {"iterable"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "loop needs a list");
  const Inner scope(*this, std::shared_ptr<Scope>(std::shared_ptr<Scope>(), loop.scope));
  Text text;
  Text* const before = std::exchange(out_, &text);
  loop_over(*loop.recursive, *bound[0], loop.level + 1);
  out_ = before;
  budget_.allocate(text.memory());
  return text;
}

Value Evaluator::call_global(std::string_view name, const Arguments& given) {
  if (name == "namespace") return make_namespace(given);
  if (name == "range") return range(given);
  if (name == "strftime_now") return strftime_now(given);
  if (name == "dict") {
    DictBuilder entries(budget_);
    if (!given.positional.empty()) {
      if (given.positional.size() > 1 || given.positional[0].dict() == nullptr)
        fail(Errc::kInvalidArgument, "dict takes one dict and names");
      for (const auto& [key, value] : given.positional[0].dict()->entries) entries.add(key, value);
    }
    for (const auto& [key, value] : given.named) entries.add(key, value);
    return entries.take();
  }
  const auto bound = given.bind("raise_exception", {"message"});
  fail(Errc::kInvalidArgument, "the template refuses: {}",
       bound[0] == nullptr ? "" : python_str(budget_, *bound[0]).bytes());
}

Value Evaluator::make_namespace(const Arguments& given) {
  budget_.allocate(sizeof(Namespace) + 64 * given.named.size());
  Namespace& space = spaces_.emplace_back();
  for (const Value& values : given.positional) {
    if (values.dict() == nullptr) fail(Errc::kInvalidArgument, "namespace takes dicts and names");
    for (const auto& [key, value] : values.dict()->entries)
      if (key.is_text()) space.values.emplace_back(key.text(), value);
  }
  for (const auto& [key, value] : given.named) space.values.emplace_back(key, value);
  return &space;
}

Value Evaluator::range(const Arguments& given) {
  const auto bound = given.bind("range", {"start", "stop", "step"});
  if (bound[0] == nullptr) fail(Errc::kInvalidArgument, "range needs a number");
  int64_t start = integer_argument(bound[0], "range: start", 0);
  int64_t stop = integer_argument(bound[1], "range: stop", 0);
  const int64_t step = integer_argument(bound[2], "range: step", 1);
  if (bound[1] == nullptr) stop = std::exchange(start, 0);
  if (step == 0) fail(Errc::kInvalidArgument, "range: step is 0");
  Values numbers;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(numbers.size()) >= kRangeMax)
      fail(Errc::kInvalidArgument, "range has more than {} numbers", kRangeMax);
    numbers.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(budget_, std::move(numbers), ListKind::kRange);
}

Value Evaluator::strftime_now(const Arguments& given) {
  const std::string format(
      text_argument(given.bind("strftime_now", {"format"})[0], "strftime_now: format", ""));
  char text[1024];
  const size_t size = std::strftime(text, sizeof text, format.c_str(), &now_);
  if (size == 0 && !format.empty())
    fail(Errc::kInvalidArgument, "strftime_now: the text is empty or too long");
  return make_text(budget_, Text(std::string(text, size)));
}

}  // namespace butterfly::model::chat_template
