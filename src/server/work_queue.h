// A few threads that read, check and prepare requests, so that the network's thread never works.
#pragma once
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace butterfly {
class GiveWay;
}

namespace butterfly::server {

// Two queues with threads of their own: jobs that may take long neither take the threads of short ones nor
// the room in their queue, and their threads come after all others where there are fewer CPUs than threads.
// Thread-safe. What a job throws is a mistake of ours: jobs catch their own errors.
class WorkQueue {
 public:
  enum class Weight { kLight, kHeavy };
  static constexpr size_t kWeights = 2;

  // `waiting_max`: of each queue.
  WorkQueue(size_t light_threads, size_t heavy_threads, size_t waiting_max);
  ~WorkQueue();  // stop()

  // False: full, or stopped.
  [[nodiscard]] bool push(std::function<void()> job, Weight weight = Weight::kLight);
  // Jobs under way are finished, those that wait are dropped.
  void stop();

 private:
  struct Lane {
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
  };
  void work(Lane& lane, GiveWay* give_way);

  const size_t waiting_max_;
  std::mutex mutex_;
  std::array<Lane, kWeights> lanes_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace butterfly::server
