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
  // `tick` runs on the loop's thread about this often, also while events come; on a machine that is too busy
  // for both, they take turns.
  EventLoop(Event tick, Duration every);
  ~EventLoop();  // stop()
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void start();
  void post(Event event);
  // Runs the event and returns what it returned. Not from the loop's own thread. A loop that does not run
  // (not started, or stopped) leaves it to the caller's thread, which then has its things to itself.
  template <typename F>
  auto ask(F&& question) -> decltype(question()) {
    std::optional<decltype(question())> answer;
    run_there([&] { answer.emplace(question()); });
    return std::move(*answer);
  }
  // Joins the thread, unless called on it. What was not run yet is dropped. Safe to call twice.
  void stop();

 private:
  void run();
  void run_there(const Event& event);

  const Event tick_;
  const Duration every_;
  std::mutex mutex_;
  std::condition_variable changed_, answered_;
  std::deque<Event> events_;
  bool stopping_ = false;
  bool runs_ = false;  // the thread, from start() to its end
  std::thread thread_;
};

}  // namespace butterfly::runtime
