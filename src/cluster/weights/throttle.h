// A bound on bytes per second, shared by all threads that move them.
#pragma once
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace butterfly::cluster {

// Thread-safe. 0 bytes/s: no bound.
class Throttle {
 public:
  explicit Throttle(uint64_t bytes_per_s, Clock& clock = SystemClock::instance())
      : bytes_per_s_(bytes_per_s), clock_(clock) {}

  // Returns when these bytes may be moved: at once for the first, later as long as those before need.
  void take(uint64_t bytes) {
    if (bytes_per_s_ == 0) return;
    TimePoint start;
    {
      const std::lock_guard lock(mutex_);
      start = std::max(clock_.now(), next_);
      const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s_);
      next_ = start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    }
    clock_.sleep_until(start);
  }

 private:
  const uint64_t bytes_per_s_;
  Clock& clock_;
  std::mutex mutex_;
  TimePoint next_{};
};

}  // namespace butterfly::cluster
