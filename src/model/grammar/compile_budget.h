// What one schema may cost to compile.
#pragma once
#include <cstdint>

#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

// Each automaton and each set of values has a limit of its own, but many of them within their limits can
// still take minutes and gigabytes. While an object of this kind lives, what its thread compiles may take so
// many steps together; a step is some 50 ns or a few bytes that stay. Budgets nest: the inner one is part of
// the outer.
class CompileBudget {
 public:
  explicit CompileBudget(uint64_t steps = kCompileStepsMax);
  ~CompileBudget();
  CompileBudget(const CompileBudget&) = delete;
  CompileBudget& operator=(const CompileBudget&) = delete;

  // Of the innermost budget of this thread; free where there is none. Throws Error kOutOfMemory past it.
  static void spend(uint64_t steps);

 private:
  uint64_t outer_, given_;
};

}  // namespace butterfly::model::grammar
