#include "runtime/nodes/event_loop.h"

namespace butterfly::runtime {

EventLoop::EventLoop(Event tick, Duration every) : tick_(std::move(tick)), every_(every) {}

EventLoop::~EventLoop() { stop(); }

void EventLoop::start() {
  const std::lock_guard lock(mutex_);
  runs_ = true;
  thread_ = std::thread([this] { run(); });
}

void EventLoop::post(Event event) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  changed_.notify_one();
}

void EventLoop::run_there(const Event& event) {
  bool done = false;
  std::unique_lock lock(mutex_);
  if (runs_ && !stopping_) {
    events_.push_back([&] {
      event();
      const std::lock_guard inner(mutex_);
      done = true;
      answered_.notify_all();
    });
    changed_.notify_one();
  }
  answered_.wait(lock, [&] { return done || !runs_; });
  lock.unlock();
  if (!done) event();
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
  bool ticked = false;  // since the last event
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = SystemClock::instance().now();
    if (now >= next_tick && (!ticked || events_.empty())) {
      next_tick = now + every_;
      ticked = true;
      lock.unlock();
      tick_();
      lock.lock();
    } else if (!events_.empty()) {
      ticked = false;
      const Event event = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      event();
      lock.lock();
    } else {
      changed_.wait_for(lock, next_tick - now);
    }
  }
  runs_ = false;
  answered_.notify_all();
}

}  // namespace butterfly::runtime
