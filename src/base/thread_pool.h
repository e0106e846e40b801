// Fork-join threads for compute. One pool per engine; ops split their outputs over it.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "base/cpu.h"
#include "base/function_ref.h"

namespace butterfly {

// A fixed set of threads. The caller of run() is worker 0, so ThreadPool(1) starts no thread at all.
//
// run() may be called by one thread at a time and not from inside itself. Workers spin for a few microseconds
// after a job (the next op usually follows at once), then sleep in the kernel: an idle pool uses no CPU.
class ThreadPool {
 public:
  struct Options {
    size_t threads = 0;  // 0: default_thread_count()
    // One worker per allowed CPU, when there are as many workers as CPUs (smaller pools are left to the
    // scheduler, so that several processes do not pile up on the first CPUs). The caller's own affinity is
    // left alone.
    bool pin = true;
    // How long a waiting thread spins before it sleeps. Unset: BUTTERFLY_SPIN (microseconds) from the
    // environment, else kDefaultSpin; nothing when there are more workers than default_thread_count().
    std::optional<std::chrono::microseconds> spin = std::nullopt;
  };
  // A wake-up from the kernel costs 5 to 50 us; gaps between the ops of one decode step are shorter than
  // this.
  static constexpr std::chrono::microseconds kDefaultSpin{50};

  ThreadPool() : ThreadPool(Options{}) {}
  explicit ThreadPool(size_t threads) : ThreadPool(Options{.threads = threads}) {}
  explicit ThreadPool(Options options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t size() const;

  // Calls fn(worker) once for each worker in [0, size()), returns when all are done. What any worker throws
  // is rethrown here after all are done (the first by worker index). Does not allocate. Each call runs inside
  // MappedFile::guard(), so workers may read mapped files.
  void run(FunctionRef<void(size_t worker)> fn);

  // Splits [0, count) into one contiguous range per worker, cut at multiples of `grain`; small counts use
  // fewer workers. Results must not depend on where the cuts are.
  void parallel_for(size_t count, size_t grain, FunctionRef<void(size_t begin, size_t end)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly
