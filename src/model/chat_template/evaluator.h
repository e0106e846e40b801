// Walks the tree of a template and writes its text, within limits.
#pragma once
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat_template/ast.h"
#include "model/chat_template/loop.h"

namespace butterfly::model::chat_template {

// Variables of a block; the ones outside are seen through it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> values;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

// range, namespace, raise_exception ...: known without being defined.
bool is_global_function(std::string_view name);

// One rendering of one template, by one thread. Owns every scope and namespace that the rendering makes;
// borrows the tree. After an Error it is of no more use but for line().
class Evaluator {
 public:
  // `budget` stays with the caller and has the last word on everything that is made.
  Evaluator(Budget& budget, const std::tm& now) : budget_(budget), now_(now) {}

  void define(std::string name, Value value) { globals_->set(name, std::move(value)); }
  Text run(const Block& block);
  int line() const { return line_; }  // that was reached, for messages

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Block& block);
  Flow execute(const Stmt& statement);
  void output(const Stmt& statement);
  Flow if_(const Stmt& statement);
  void for_(const Stmt& statement);
  void loop_over(const Stmt& statement, const Value& items, int level);
  Values kept_items(const Stmt& statement, Values items);
  void set_block(const Stmt& statement);
  void define_macro(const Stmt& statement);
  void call_block(const Stmt& statement);
  void filter_block(const Stmt& statement);
  void with(const Stmt& statement);
  void assign(const Expr& target, const Value& value);
  Text capture(const Block& block);  // in a scope of its own
  void emit(TextView text);

  Value evaluate(const Expr& expr);
  Value name(const Expr& expr);
  Value item(const Expr& expr);
  Value slice(const Expr& expr);
  Value list(const Expr& expr, ListKind kind);
  Value dict(const Expr& expr);
  Value compare_chain(const Expr& expr);
  Value concat(const Expr& expr);
  Value filter(const Expr& expr, const Value* operand);
  Value test(const Expr& expr);
  Value call(const Expr& expr, const Value* caller);
  std::optional<Value> change_list(const Expr& expr);
  Arguments arguments(const Expr& expr);

  Value call_value(const Value& function, Arguments arguments, const Value* caller);
  Value call_macro(const Callable& macro, Arguments arguments, const Value* caller);
  Value call_loop(const Loop& loop, const Arguments& arguments);
  Value call_global(std::string_view name, const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  Value range(const Arguments& arguments);
  Value strftime_now(const Arguments& arguments);
  Value macro_value(const Stmt& statement);

  // A scope inside the current one for the time of a block.
  class Inner;

  Budget& budget_;
  std::tm now_;
  std::shared_ptr<Scope> globals_ = std::make_shared<Scope>();
  std::shared_ptr<Scope> scope_ = globals_;
  Text* out_ = nullptr;
  int line_ = 1;
  std::deque<Namespace> spaces_;
  std::vector<std::shared_ptr<Scope>> kept_;  // scopes that macros and loops refer to
};

}  // namespace butterfly::model::chat_template
