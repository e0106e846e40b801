#include "runtime/cluster/event_loop.h"

namespace butterfly::runtime {

EventLoop::EventLoop(Event tick, Duration every) : tick_(std::move(tick)), every_(every) {}

EventLoop::~EventLoop() { stop(); }

void EventLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void EventLoop::post(Event event) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  changed_.notify_one();
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  std::deque<Event> dropped;  // what they hold may post: not under the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(events_);
}

void EventLoop::run() {
  TimePoint next_tick = SystemClock::instance().now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = SystemClock::instance().now();
    if (now >= next_tick) {
      next_tick = now + every_;
      lock.unlock();
      tick_();
      lock.lock();
    } else if (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      event();
      lock.lock();
    } else {
      changed_.wait_for(lock, next_tick - now);
    }
  }
}

}  // namespace butterfly::runtime
