#include "train/trainer/schedule.h"

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "kernels/math/math.h"

namespace butterfly::train {
namespace {

struct Row {
  std::string_view name;
  ScheduleKind kind;
};
constexpr Row kRows[] = {{"constant", ScheduleKind::kConstant},
                         {"linear", ScheduleKind::kLinear},
                         {"cosine", ScheduleKind::kCosine}};

// From 1 at the beginning to 0 at the end.
double shape_at(ScheduleKind kind, double done) {
  if (kind == ScheduleKind::kConstant) return 1;
  if (kind == ScheduleKind::kLinear) return 1 - done;
  double sine = 0, cosine = 0;
  kernels::sincos_f64(std::numbers::pi * done, &sine, &cosine);
  return 0.5 * (1 + cosine);
}

}  // namespace

double Schedule::rate(uint64_t step) const {
  if (step < warmup_steps) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const uint64_t length = total_steps > warmup_steps ? total_steps - warmup_steps : 1;
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(length));
  const double shape = shape_at(kind, done);
  return lr * (min_ratio + (1 - min_ratio) * shape);
}

ScheduleKind schedule_by_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.kind;
  fail(Errc::kInvalidArgument, "schedule '{}': expected constant, linear or cosine", name);
}

std::string_view schedule_name(ScheduleKind kind) {
  for (const Row& row : kRows)
    if (row.kind == kind) return row.name;
  return "";
}

}  // namespace butterfly::train
