// How long what comes to this process has to wait until the process runs.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace butterfly {

// The arithmetic: a process that stood still for `gap` made what came in that time wait for gap / 2 on
// average, so over a while the mean wait is the sum of gap^2 / 2 divided by the while. Of several whiles the
// median counts, so that one stop, however long, changes nothing.
class WaitFigure {
 public:
  // What the scheduler of a busy machine does with a thread that wakes up is no stop.
  static constexpr Duration kStopLeast = std::chrono::milliseconds(20);
  static constexpr size_t kWholes = 5;

  // The process did nothing for so long where it wanted to run.
  void add(Duration gap);
  // A while is over, the next begins: seconds that something waits which comes at any moment.
  double end_whole(Duration whole);

 private:
  double sum_s2_ = 0;
  std::array<double, kWholes> means_s_{};
  size_t next_ = 0;
};

// A thread that sleeps for a hundredth of a second and sees how much later it wakes up. A machine that swaps,
// a control group whose share of the CPU is used up, a virtual machine that its host holds back stand still
// for tenths of a second. The time that steps compute does not show that: most messages come while the
// process waits for them.
class LateWatch {
 public:
  explicit LateWatch(Duration whole = std::chrono::seconds(2));
  ~LateWatch();
  LateWatch(const LateWatch&) = delete;

  // Of the last whiles, as WaitFigure says. From any thread.
  double wait_s() const { return wait_s_.load(std::memory_order_relaxed); }

 private:
  void run();

  const Duration whole_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::atomic<double> wait_s_{0};
  std::thread thread_;  // last: it uses the others
};

}  // namespace butterfly
