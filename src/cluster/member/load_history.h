// How busy a node was in the last hour: for status pages.
#pragma once
#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace butterfly::cluster {

// What one node did, now or in the mean over a while.
struct LoadPoint {
  TimePoint at{};           // the end of the while
  double busy = 0;          // share of the time in which its stages computed
  double machine_busy = 0;  // share of its CPUs' time that anybody used
  double rows_per_s = 0;
  double pending = 0;  // stages with a step at hand
  uint64_t ram_free_bytes = 0;
};

// A point for every so many seconds in which there were beats, the oldest given up. Bounded. One thread.
class LoadHistory {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(10);
  static constexpr size_t kPointsMax = 360;

  void add(const LoadPoint& now) {
    if (count_ == 0) since_ = now.at;
    sum_.busy += now.busy;
    sum_.machine_busy += now.machine_busy;
    sum_.rows_per_s += now.rows_per_s;
    sum_.pending += now.pending;
    ++count_;
    if (now.at - since_ < kEvery) return;
    const auto n = static_cast<double>(count_);
    points_.push_back({.at = now.at,
                       .busy = sum_.busy / n,
                       .machine_busy = sum_.machine_busy / n,
                       .rows_per_s = sum_.rows_per_s / n,
                       .pending = sum_.pending / n,
                       .ram_free_bytes = now.ram_free_bytes});
    if (points_.size() > kPointsMax) points_.pop_front();
    sum_ = {};
    count_ = 0;
  }
  const std::deque<LoadPoint>& points() const { return points_; }  // oldest first

 private:
  std::deque<LoadPoint> points_;
  LoadPoint sum_;
  size_t count_ = 0;
  TimePoint since_{};
};

}  // namespace butterfly::cluster
