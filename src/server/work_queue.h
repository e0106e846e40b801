// A few threads that read, check and prepare requests, so that the network's thread never works.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace butterfly::server {

// Thread-safe. What a job throws is a mistake of ours: jobs catch their own errors.
class WorkQueue {
 public:
  WorkQueue(size_t threads, size_t waiting_max);
  ~WorkQueue();  // stop()

  // Jobs that may take long do not get every thread, so that short ones need not wait behind them.
  enum class Weight { kLight, kHeavy };
  // False: full, or stopped.
  [[nodiscard]] bool push(std::function<void()> job, Weight weight = Weight::kLight);
  // Jobs under way are finished, those that wait are dropped.
  void stop();

 private:
  struct Job {
    std::function<void()> run;
    Weight weight;
  };
  void work(bool only_light);

  const size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace butterfly::server
