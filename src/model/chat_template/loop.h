// What `loop` and callable values hold.
#pragma once
#include <memory>
#include <string>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

struct Stmt;
struct Scope;

// The variable `loop` of one turn of a for statement.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;                 // from 0
  int level = 0;                    // of recursive loops
  const Stmt* recursive = nullptr;  // the statement, if it may be called
  Scope* scope = nullptr;           // in which it was begun
};

// A global function, a method of a value, or a macro.
struct Callable {
  std::string name;
  Value self;                   // of a method
  const Stmt* macro = nullptr;  // of a macro or the body of a call block
  Scope* scope = nullptr;       // in which the macro was made; kept by the evaluator
};

}  // namespace butterfly::model::chat_template
