// Time as an argument: control code asks a Clock, so that tests and the simulator decide what time it is.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace butterfly {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Never goes back. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // Returns when now() >= `until`; at once if that is past.
  virtual void sleep_until(TimePoint until) = 0;
  void sleep_for(Duration duration) { sleep_until(now() + duration); }
};

// The machine's monotonic clock.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
  void sleep_until(TimePoint until) override;
  static SystemClock& instance();
};

// Of the machine's monotonic clock, for shells around what asks a Clock.
inline TimePoint system_now() { return SystemClock::instance().now(); }

// As system_now(), but it also counts the time that the machine slept: for promises to other machines.
TimePoint boot_now();

// Milliseconds since 1970: the time of day, for people and for other machines.
int64_t unix_ms();
inline int64_t unix_seconds() { return unix_ms() / 1000; }

inline double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Stands still until told to move. Thread-safe.
class ManualClock final : public Clock {
 public:
  enum class Sleep {
    kBlocks,    // until another thread advances far enough
    kAdvances,  // moves the clock itself: one thread can play any length of time at once
  };
  explicit ManualClock(Sleep sleep = Sleep::kBlocks) : sleep_(sleep) {}

  TimePoint now() const override;
  void sleep_until(TimePoint until) override;
  // Wakes the sleepers whose time has come. BF_CHECKs duration >= 0.
  void advance(Duration duration);
  // Blocks until `count` threads sleep, so that a test can advance at the right moment.
  void wait_for_sleepers(size_t count) const;

 private:
  const Sleep sleep_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  TimePoint now_{};
  size_t sleepers_ = 0;
};

// A moment by which something must have happened. Every wait has one. Borrows the clock.
class Deadline {
 public:
  Deadline(const Clock& clock, Duration from_now);
  static Deadline at(const Clock& clock, TimePoint when) { return Deadline(clock, when); }

  bool expired() const { return clock_->now() >= when_; }
  Duration remaining() const;  // never negative
  TimePoint when() const { return when_; }

 private:
  Deadline(const Clock& clock, TimePoint when) : clock_(&clock), when_(when) {}
  const Clock* clock_;
  TimePoint when_;
};

}  // namespace butterfly
