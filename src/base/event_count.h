// Sleeping until something lock-free changes: "wait until the queue is not empty" for a queue that has no
// lock.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace butterfly {

// The waiter announces itself, looks once more, and only then sleeps; the notifier changes things first and
// then looks for waiters. All of it in sequentially consistent order, so either the waiter sees the change or
// the notifier sees the waiter. What is waited for must be read and written with seq_cst operations too.
//
// A notify without waiters costs one load. Any thread may wait and notify.
class EventCount {
 public:
  // Returns when ready() is true. ready() may be called any number of times.
  template <typename Ready>
  void wait(Ready ready) {
    while (!ready()) {
      waiters_.fetch_add(1);
      const uint32_t seen = epoch_.load();
      const bool now = ready();
      if (!now) futex_wait(epoch_, seen);
      waiters_.fetch_sub(1);
      if (now) return;
    }
  }

  void notify_one() {
    if (waiters_.load() == 0) return;
    epoch_.fetch_add(1);
    futex_wake_one(epoch_);
  }
  void notify_all() {
    if (waiters_.load() == 0) return;
    epoch_.fetch_add(1);
    futex_wake_all(epoch_);
  }

 private:
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> waiters_{0};
};

}  // namespace butterfly
