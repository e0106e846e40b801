#include "base/clock.h"

#include <time.h>

#include <algorithm>
#include <thread>

#include "base/check.h"

namespace butterfly {

TimePoint SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

void SystemClock::sleep_until(TimePoint until) { std::this_thread::sleep_until(until); }

SystemClock& SystemClock::instance() {
  static SystemClock clock;
  return clock;
}

TimePoint boot_now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TimePoint ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ManualClock::sleep_until(TimePoint until) {
  std::unique_lock lock(mutex_);
  if (sleep_ == Sleep::kAdvances) {
    now_ = std::max(now_, until);
    changed_.notify_all();
    return;
  }
  if (now_ >= until) return;
  ++sleepers_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return now_ >= until; });
  --sleepers_;
}

void ManualClock::advance(Duration duration) {
  BF_CHECK(duration.count() >= 0) << "advance by " << duration.count() << " ns";
  const std::lock_guard lock(mutex_);
  now_ += duration;
  changed_.notify_all();
}

void ManualClock::wait_for_sleepers(size_t count) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sleepers_ >= count; });
}

// "For ever" is a duration too: the sum stops at the end of time.
Deadline::Deadline(const Clock& clock, Duration from_now) : clock_(&clock) {
  const TimePoint now = clock.now();
  when_ = from_now > TimePoint::max() - std::max(now, TimePoint{}) ? TimePoint::max() : now + from_now;
}

Duration Deadline::remaining() const { return std::max(when_ - clock_->now(), Duration::zero()); }

}  // namespace butterfly
