// What prefetching and the shared queue gain, and what the queue costs.
//
// Times of reading and computing are made up, by sleeping (a slow disk) and by spinning (arithmetic), so that
// the figures say something about the pipeline and not about a model.
#include <benchmark/benchmark.h>

#include <deque>
#include <mutex>
#include <thread>

#include "base/bounded_queue.h"
#include "base/rng.h"
#include "train/data/prefetch.h"
#include "train/data/workers.h"

#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define BUTTERFLY_HAS_MOODYCAMEL 1
#endif

namespace butterfly::train {
namespace {

using std::chrono::microseconds;

// CPU time, so that a thread which is not running does not count as having computed.
void compute(microseconds time) {
  timespec begin, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const int64_t wanted = std::chrono::nanoseconds(time).count();
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - begin.tv_sec) * 1'000'000'000 + (now.tv_nsec - begin.tv_nsec) < wanted);
}

// The reader takes as long as the computation.
void throttled_reader(benchmark::State& state) {
  constexpr microseconds kTime(2000);
  constexpr uint64_t kBatches = 100;
  for (auto _ : state) {
    Prefetch prefetch([&](uint64_t, Batch&) { std::this_thread::sleep_for(kTime); },
                      {.threads = static_cast<size_t>(state.range(0)), .end = kBatches});
    while (prefetch.next() != nullptr) compute(kTime);
  }
  state.SetItemsProcessed(static_cast<int64_t>(kBatches) * static_cast<int64_t>(state.iterations()));
}
BENCHMARK(throttled_reader)
    ->ArgName("threads")
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Micro-batches of 0.5 to 3.5 ms: texts are not equally long.
microseconds uneven(size_t item) { return microseconds(500 + random_u64(5, 0, item) % 3000); }
constexpr size_t kMicroBatches = 64;

void step_over_the_queue(benchmark::State& state) {
  Workers workers(static_cast<size_t>(state.range(0)));
  for (auto _ : state) workers.run(kMicroBatches, [](size_t, size_t item) { compute(uneven(item)); });
  state.counters["utilisation"] = workers.times().utilisation();
}
BENCHMARK(step_over_the_queue)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void barrier_after_every_batch(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  Workers workers(count);
  for (auto _ : state)
    for (size_t begin = 0; begin < kMicroBatches; begin += count)
      workers.run(count, [&](size_t, size_t item) { compute(uneven(begin + item)); });
  state.counters["utilisation"] = workers.times().utilisation();
}
BENCHMARK(barrier_after_every_batch)
    ->ArgName("workers")
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// One push and one pop of a number, by threads that do both.
BoundedQueue<uint64_t> ring(256);
void queue_ring(benchmark::State& state) {
  uint64_t item = 1;
  for (auto _ : state) {
    while (!ring.try_push(item)) {
    }
    while (!ring.try_pop(item)) {
    }
  }
}
BENCHMARK(queue_ring)->Threads(1)->Threads(2)->UseRealTime();

std::mutex mutex;
std::deque<uint64_t> locked;
void queue_mutex(benchmark::State& state) {
  for (auto _ : state) {
    {
      const std::lock_guard lock(mutex);
      locked.push_back(1);
    }
    const std::lock_guard lock(mutex);
    if (!locked.empty()) locked.pop_front();
  }
}
BENCHMARK(queue_mutex)->Threads(1)->Threads(2)->UseRealTime();

#ifdef BUTTERFLY_HAS_MOODYCAMEL
moodycamel::ConcurrentQueue<uint64_t> unbounded(256);
void queue_moodycamel(benchmark::State& state) {
  uint64_t item = 1;
  for (auto _ : state) {
    unbounded.enqueue(item);
    while (!unbounded.try_dequeue(item)) {
    }
  }
}
BENCHMARK(queue_moodycamel)->Threads(1)->Threads(2)->UseRealTime();
#endif

}  // namespace
}  // namespace butterfly::train
