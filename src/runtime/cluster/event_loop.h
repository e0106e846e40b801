// One thread that everything a state machine hears goes through, with a tick in between.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace butterfly::runtime {

// post() from any thread; what is posted runs in order on the loop's thread. After stop() nothing runs any
// more.
class EventLoop {
 public:
  using Event = std::function<void()>;
  // `tick` runs on the loop's thread about this often, also while events come.
  EventLoop(Event tick, Duration every);
  ~EventLoop();  // stop()
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void start();
  void post(Event event);
  // Runs the event and returns what it returned. Not from the loop's own thread; only while it runs.
  template <typename F>
  auto ask(F&& question) -> decltype(question()) {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<decltype(question())> answer;
    post([&] {
      auto value = question();
      const std::lock_guard lock(mutex);
      answer.emplace(std::move(value));
      answered.notify_one();
    });
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return answer.has_value(); });
    return std::move(*answer);
  }
  // Joins the thread, unless called on it. What was not run yet is dropped. Safe to call twice.
  void stop();

 private:
  void run();

  const Event tick_;
  const Duration every_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace butterfly::runtime
