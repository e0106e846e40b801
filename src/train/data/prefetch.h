// Batches made ahead of time by threads of their own, and handed out in order.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/event_count.h"
#include "train/data/batch.h"

namespace butterfly::train {

struct PrefetchOptions {
  size_t threads = 1;  // 0: no thread, next() makes the batch itself
  size_t depth = 128;  // batches that may be ready at once
  uint64_t begin = 0;  // the first batch, for runs that go on
  uint64_t end = UINT64_MAX;
};

struct PrefetchTimes {
  uint64_t batches = 0;
  std::chrono::nanoseconds waited{0};  // by next(), until the batch was there
  std::chrono::nanoseconds made{0};    // by all threads, making batches
};

// A ring of `depth` slots; batch i belongs into slot i mod depth. A thread takes the next number, waits until
// its slot is free, fills it and marks it; next() waits for the mark of its own number. So the order of
// delivery is the order of numbers, whatever the threads do, and no lock is held while a batch is made.
//
// next() is for one thread. An exception of `fill` comes out of next() at the batch where it happened.
class Prefetch {
 public:
  using Fill = std::function<void(uint64_t index, Batch& batch)>;  // from any thread
  Prefetch(Fill fill, const PrefetchOptions& options);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The next batch, or null at the end. Valid until the next call.
  const Batch* next();
  PrefetchTimes times() const;

 private:
  // turn = 2 * round while free for that round, 2 * round + 1 while filled.
  struct alignas(64) Slot {
    std::atomic<uint64_t> turn{0};
    Batch batch;
    std::exception_ptr error;
  };
  void work();
  void make(uint64_t index, Slot& slot);
  Slot& slot_of(uint64_t index) { return slots_[(index - options_.begin) % slots_.size()]; }
  uint64_t round_of(uint64_t index) const { return (index - options_.begin) / slots_.size(); }

  const Fill fill_;
  const PrefetchOptions options_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  alignas(64) std::atomic<uint64_t> next_number_;
  alignas(64) EventCount filled_;
  alignas(64) EventCount freed_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> made_ns_{0};
  uint64_t next_index_;
  bool held_ = false;  // the caller has the batch before next_index_
  uint64_t batches_ = 0;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace butterfly::train
