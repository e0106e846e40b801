// The learning rate as a function of the step: a warm-up, then constant, a line or half a cosine.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace butterfly::train {

enum class ScheduleKind { kConstant, kLinear, kCosine };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-3;           // the highest rate
  uint64_t warmup_steps = 0;  // from lr / warmup_steps up to lr
  uint64_t total_steps = 0;   // where linear and cosine end
  double min_ratio = 0;       // of lr, what they end at

  // The rate of step 0, 1, 2, ... The same bits on every machine: no libm.
  double rate(uint64_t step) const;
};

// "constant", "linear", "cosine". Throws Error kInvalidArgument naming the choices.
ScheduleKind schedule_by_name(std::string_view name);
std::string_view schedule_name(ScheduleKind kind);

}  // namespace butterfly::train
