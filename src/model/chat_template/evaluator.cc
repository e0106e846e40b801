#include "model/chat_template/evaluator.h"

#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/scope_inner.h"
#include "model/chat_template/tables.h"

namespace butterfly::model::chat_template {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get())
    for (const auto& [key, value] : scope->values)
      if (key == name) return &value;
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : values) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  values.emplace_back(std::string(name), std::move(value));
}

Text Evaluator::run(const Block& block) {
  Text text;
  out_ = &text;
  const Inner scope(*this);
  execute(block);
  return text;
}

void Evaluator::emit(TextView text) {
  budget_.output(text.size());
  budget_.step(text.size() / 64);
  out_->append(text);
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  for (const Stmt& statement : block)
    if (const Flow flow = execute(statement); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Stmt& statement) {
  const Budget::Level level(budget_);
  budget_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StmtKind::kText:
      emit({statement.name, Origin::kTemplate});
      break;
    case StmtKind::kOutput:
      output(statement);
      break;
    case StmtKind::kIf:
      return if_(statement);
    case StmtKind::kFor:
      for_(statement);
      break;
    case StmtKind::kSet:
      assign(*statement.target, evaluate(*statement.expr));
      break;
    case StmtKind::kSetBlock:
      set_block(statement);
      break;
    case StmtKind::kMacro:
      define_macro(statement);
      break;
    case StmtKind::kCall:
      call_block(statement);
      break;
    case StmtKind::kFilter:
      filter_block(statement);
      break;
    case StmtKind::kWith:
      with(statement);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Evaluator::output(const Stmt& statement) { emit(python_str(budget_, evaluate(*statement.expr)).view()); }

Evaluator::Flow Evaluator::if_(const Stmt& statement) {
  for (const Branch& branch : statement.branches)
    if (branch.condition == nullptr || evaluate(*branch.condition).truthy()) return execute(branch.body);
  return Flow::kNext;
}

void Evaluator::for_(const Stmt& statement) {
  const Value items = evaluate(*statement.expr);
  loop_over(statement, items, 0);
}

// What the filter of a for statement leaves.
Values Evaluator::kept_items(const Stmt& statement, Values items) {
  if (statement.filter == nullptr) return items;
  Values kept;
  for (Value& item : items) {
    const Inner scope(*this);
    assign(*statement.target, item);
    if (evaluate(*statement.filter).truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

void Evaluator::loop_over(const Stmt& statement, const Value& value, int level) {
  const Value items = make_list(budget_, kept_items(statement, iterate(budget_, value)));
  const size_t count = items.list()->items.size();
  if (statement.recursive) kept_.push_back(scope_);
  if (count == 0) {
    const Inner scope(*this);
    execute(statement.otherwise);
  }
  for (size_t i = 0; i < count; ++i) {
    const Inner scope(*this);
    budget_.allocate(sizeof(Loop) + sizeof(Scope));
    const Stmt* again = statement.recursive ? &statement : nullptr;
    scope_->set("loop", std::make_shared<const Loop>(
                            Loop{items.shared_list(), i, level, again, scope_->parent.get()}));
    assign(*statement.target, items.list()->items[i]);
    if (execute(statement.body) == Flow::kBreak) break;
  }
}

Text Evaluator::capture(const Block& block) {
  Text text;
  Text* const before = std::exchange(out_, &text);
  // Put back when something throws as well: nobody reads out_ then, but it must not dangle.
  struct Restore {
    Text*& out;
    Text* before;
    ~Restore() { out = before; }
  } restore{out_, before};
  const Inner scope(*this);
  execute(block);
  budget_.allocate(text.memory());
  return text;
}

void Evaluator::set_block(const Stmt& statement) {
  Value text(capture(statement.body));
  if (statement.filter != nullptr) text = filter(*statement.filter, &text);
  assign(*statement.target, text);
}

void Evaluator::filter_block(const Stmt& statement) {
  const Value text(capture(statement.body));
  emit(python_str(budget_, filter(*statement.filter, &text)).view());
}

void Evaluator::with(const Stmt& statement) {
  Values values;
  for (const auto& [name, value] : statement.parameters) values.push_back(evaluate(*value));
  const Inner scope(*this);
  for (size_t i = 0; i < values.size(); ++i) scope_->set(statement.parameters[i].first, std::move(values[i]));
  execute(statement.body);
}

Value Evaluator::macro_value(const Stmt& statement) {
  budget_.allocate(sizeof(Callable));
  if (kept_.empty() || kept_.back() != scope_) kept_.push_back(scope_);
  return std::make_shared<const Callable>(Callable{statement.name, Value(), &statement, scope_.get()});
}

void Evaluator::define_macro(const Stmt& statement) { scope_->set(statement.name, macro_value(statement)); }

void Evaluator::call_block(const Stmt& statement) {
  const Value caller = macro_value(statement);
  emit(python_str(budget_, call(*statement.expr, &caller)).view());
}

void Evaluator::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) return scope_->set(target.name, value);
  if (target.kind == ExprKind::kAttr) {
    const Value object = evaluate(*target.operands[0]);
    Namespace* space = object.space();
    if (space == nullptr)
      fail(Errc::kInvalidArgument, "only a namespace can be changed, found {}", object.type_name());
    budget_.allocate(target.name.size() + sizeof(Value));
    if (Value* old = space->find(target.name)) {
      *old = value;
    } else {
      space->values.emplace_back(target.name, value);
    }
    return;
  }
  const Values parts = iterate(budget_, value);
  if (parts.size() != target.operands.size())
    fail(Errc::kInvalidArgument, "expected {} values to unpack, found {}", target.operands.size(),
         parts.size());
  for (size_t i = 0; i < parts.size(); ++i) assign(*target.operands[i], parts[i]);
}

}  // namespace butterfly::model::chat_template
