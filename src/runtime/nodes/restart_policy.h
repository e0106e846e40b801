// When a process that ended is started again: at once the first time, later and later if it keeps ending, and
// not for ever.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/clock.h"

namespace butterfly::runtime {

struct RestartLimits {
  size_t in_a_row_max = 5;  // 0: never
  Duration first = std::chrono::milliseconds(500);
  Duration longest = std::chrono::seconds(10);
  Duration proved = std::chrono::minutes(1);  // one that lived this long works: its next end is a new one
};

// Of one process. A function of what happened so far: no clock, no threads.
class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  // It ended after `lived`: wait so long, then start it again. Nothing: do not.
  std::optional<Duration> ended(Duration lived) {
    if (lived >= limits_.proved) in_a_row_ = 0;
    if (in_a_row_ >= limits_.in_a_row_max) return std::nullopt;
    const auto doublings = std::min<size_t>(in_a_row_++, 16);
    return std::min(limits_.longest, limits_.first * (int64_t{1} << doublings));
  }
  // Restarts since it last proved itself.
  size_t in_a_row() const { return in_a_row_; }

 private:
  RestartLimits limits_;
  size_t in_a_row_ = 0;
};

}  // namespace butterfly::runtime
