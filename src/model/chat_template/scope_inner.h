// Part of the evaluator, shared by its sources: a scope for the time of a block.
#pragma once
#include <memory>
#include <utility>

#include "model/chat_template/evaluator.h"

namespace butterfly::model::chat_template {

// Held on the stack: the constructor opens the scope, the destructor goes back to the one before.
class Evaluator::Inner {
 public:
  explicit Inner(Evaluator& evaluator) : Inner(evaluator, evaluator.scope_) {}
  Inner(Evaluator& evaluator, std::shared_ptr<Scope> parent)
      : evaluator_(evaluator), before_(std::exchange(evaluator.scope_, std::make_shared<Scope>())) {
    evaluator_.scope_->parent = std::move(parent);
  }
  ~Inner() { evaluator_.scope_ = std::move(before_); }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

}  // namespace butterfly::model::chat_template
