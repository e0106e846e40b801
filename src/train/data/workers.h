// Threads that work off the micro-batches of a step from one queue.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/function_ref.h"

namespace butterfly::train {

// How the threads spent their time.
struct WorkerTimes {
  std::chrono::nanoseconds busy{0};  // sum over the threads, inside the caller's function
  std::chrono::nanoseconds wall{0};  // threads x time inside run()
  double utilisation() const {
    return wall.count() == 0 ? 0 : static_cast<double>(busy.count()) / static_cast<double>(wall.count());
  }
};

// Owns its threads; they sleep when there is nothing to do. run() is for one thread at a time.
//
// Whoever is free takes the next item, so uneven items do not leave threads waiting at a barrier after each
// round. The step itself is the barrier: run() returns when every item is finished, not when it was taken.
class Workers {
 public:
  static constexpr size_t kQueueMax = 256;  // items waiting; run() sleeps while there are as many

  // `count` threads besides the caller, who only waits.
  explicit Workers(size_t count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t size() const { return threads_.size(); }

  // Calls fn(worker, item) for each item in [0, count), each once, on some worker. Items begin in order. If
  // some throw, the others still run, and the exception of the lowest item is thrown here.
  void run(size_t count, FunctionRef<void(size_t worker, size_t item)> fn);

  // Since the beginning, or since the last reset.
  WorkerTimes times() const;
  void reset_times();

 private:
  struct alignas(64) Worker {
    std::atomic<uint64_t> busy_ns{0};
  };
  struct Item {
    const FunctionRef<void(size_t, size_t)>* fn = nullptr;
    size_t index = 0;
  };
  void work(size_t worker);
  void call(size_t worker, const Item& item);

  BoundedQueue<Item> queue_{kQueueMax};
  std::vector<Worker> workers_;
  std::vector<std::thread> threads_;
  alignas(64) std::atomic<size_t> finished_{0};
  size_t wanted_ = 0;  // written before the first item of a run is pushed
  EventCount all_finished_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  size_t error_item_ = 0;
  std::chrono::nanoseconds wall_{0};
};

}  // namespace butterfly::train
