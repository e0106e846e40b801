#include "base/late_watch.h"

#include <algorithm>
#include <utility>

namespace butterfly {
namespace {

constexpr Duration kNap = std::chrono::milliseconds(10);

}  // namespace

void WaitFigure::add(Duration gap) {
  if (gap < kStopLeast) return;
  const double gap_s = std::chrono::duration<double>(gap).count();
  sum_s2_ += gap_s * gap_s / 2;
}

double WaitFigure::end_whole(Duration whole) {
  means_s_[next_++ % kWholes] = std::exchange(sum_s2_, 0) / std::chrono::duration<double>(whole).count();
  std::array<double, kWholes> sorted = means_s_;
  std::ranges::nth_element(sorted, sorted.begin() + kWholes / 2);
  return sorted[kWholes / 2];
}

LateWatch::LateWatch(Duration whole) : whole_(whole), thread_([this] { run(); }) {}

LateWatch::~LateWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  thread_.join();
}

void LateWatch::run() {
  WaitFigure figure;
  TimePoint at = system_now(), began = at;
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, kNap, [this] { return ended_; })) {
    const TimePoint now = system_now();
    figure.add(now - std::exchange(at, now) - kNap);
    if (now - began >= whole_)
      wait_s_.store(figure.end_whole(now - std::exchange(began, now)), std::memory_order_relaxed);
  }
}

}  // namespace butterfly
