// The threads that compute steps, taken by one at a time.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/thread_pool.h"

namespace butterfly {

// Owns the pool that the engines and stages of a process compute on. A pool runs one job at a time, so
// whoever computes a step takes a turn for it: there is no other way to the pool. Turns are given in the
// order in which they were asked for, so that two engines that always have work alternate. Taking one that is
// free costs some tens of nanoseconds. Outlives its turns.
//
// What is not a step (reading, hashing, packing) has threads of its own: base/background_pool.h.
class Compute {
 public:
  explicit Compute(size_t threads) : pool_(threads) {}
  explicit Compute(ThreadPool::Options options) : pool_(options) {}

  // Threads of the pool: what needs as many of its own, or plans memory for each, asks here.
  size_t size() const { return pool_.size(); }

  // The pool, for as long as this lives. Of one thread, and at most one turn to a thread: a second would wait
  // for the first.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : compute_(std::exchange(other.compute_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (compute_ != nullptr) compute_->give_back();
    }
    ThreadPool& pool() const { return compute_->pool_; }

   private:
    friend class Compute;
    explicit Turn(Compute* compute) : compute_(compute) {}
    Compute* compute_;
  };

  // Waits for those who came before.
  [[nodiscard]] Turn take();
  // Waits until nobody has the pool and nobody waits for it: for work that goes after all other, and ends its
  // turn soon (a training run beside what is served).
  [[nodiscard]] Turn take_last();
  // None while somebody has the pool, or waits for it.
  [[nodiscard]] std::optional<Turn> try_take();
  // How many wait for their turn.
  size_t waiting() const;

 private:
  void give_back();

  ThreadPool pool_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t asked_ = 0, ended_ = 0;  // turns so far; the one that runs has number ended_
  size_t last_ = 0;                 // in take_last()
};

}  // namespace butterfly
