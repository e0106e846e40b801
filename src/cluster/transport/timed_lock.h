// A lock that can be waited for until a moment and be held for long.
#pragma once
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace butterfly::cluster {

// std::timed_mutex would do, but the thread sanitizer of g++ 12 does not see its waits.
class TimedLock {
 public:
  // False when others had it all the time.
  bool try_lock_until(TimePoint until) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_until(lock, until, [&] { return !taken_; })) return false;
    taken_ = true;
    return true;
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      taken_ = false;
    }
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace butterfly::cluster
