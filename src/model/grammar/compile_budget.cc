#include "model/grammar/compile_budget.h"

#include <algorithm>

#include "base/error.h"

namespace butterfly::model::grammar {

namespace {

constexpr uint64_t kNoBudget = ~uint64_t{0};
thread_local uint64_t steps_left = kNoBudget;

}  // namespace

CompileBudget::CompileBudget(uint64_t steps) : outer_(steps_left), given_(std::min(outer_, steps)) {
  steps_left = given_;
}

CompileBudget::~CompileBudget() {
  steps_left = outer_ == kNoBudget ? kNoBudget : outer_ - (given_ - steps_left);
}

void CompileBudget::spend(uint64_t steps) {
  if (steps_left == kNoBudget) return;
  if (steps > steps_left) {
    steps_left = 0;
    fail(Errc::kOutOfMemory, "takes more than {} steps to compile", kCompileStepsMax);
  }
  steps_left -= steps;
}

}  // namespace butterfly::model::grammar
