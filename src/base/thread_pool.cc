#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/futex.h"
#include "base/mapped_file.h"

namespace butterfly {
namespace {

using std::chrono::microseconds;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or the time is over. Looking at the clock costs as much as a few pauses, so not each
// time.
template <typename Done>
bool spin_until(microseconds limit, Done done) {
  if (done()) return true;
  if (limit.count() <= 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
    if (std::chrono::steady_clock::now() >= deadline) return done();
  }
}

microseconds spin_from_environment() {
  const char* text = std::getenv("BUTTERFLY_SPIN");
  int64_t value = -1;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value >= 0 ? microseconds(value) : ThreadPool::kDefaultSpin;
}

void pin_this_thread(int cpu) {
  cpu_set_t* mask = CPU_ALLOC(cpu + 1);
  const size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(bytes, mask);
  CPU_SET_S(cpu, bytes, mask);
  pthread_setaffinity_np(pthread_self(), bytes, mask);  // a refusal costs speed, not correctness
  CPU_FREE(mask);
}

}  // namespace

// The caller writes job_, then counts generation_ up; workers see the new number, run the job and count
// pending_ down. A side that finds nothing spins, then sleeps on the word it waits for. sleepers_ and
// caller_sleeps_ save the wake-up call into the kernel while everybody is hot; they pair with the words in
// sequentially consistent order: either the sleeper sees the new word, or the waker sees the sleeper.
struct ThreadPool::Impl {
  struct alignas(64) Worker {
    std::exception_ptr error;
    std::thread thread;
  };

  void start(const Options& options);
  void stop();
  void loop(size_t index, int cpu);
  void call(size_t index);
  void wait_for_workers();

  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> sleepers_{0};
  const FunctionRef<void(size_t)>* job_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> pending_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<bool> running_{false};
  microseconds spin_{0};
  std::vector<Worker> workers_;
};

void ThreadPool::Impl::start(const Options& options) {
  const std::vector<int> cpus = allowed_cpus();
  const size_t count = options.threads == 0 ? default_thread_count() : options.threads;
  workers_ = std::vector<Worker>(count);
  // Spinning with more workers than CPUs (or than the quota grants) takes time from those who have work.
  const bool crowded = count > default_thread_count();
  spin_ = options.spin ? *options.spin : crowded ? microseconds(0) : spin_from_environment();

  // The caller keeps the CPU it is on; workers take the others in order after it.
  const auto here = std::find(cpus.begin(), cpus.end(), sched_getcpu());
  const size_t first = here == cpus.end() ? 0 : static_cast<size_t>(here - cpus.begin());
  const bool pin = options.pin && count == cpus.size();
  try {
    for (size_t i = 1; i < count; ++i) {
      const int cpu = pin ? cpus[(first + i) % cpus.size()] : -1;
      workers_[i].thread = std::thread([this, i, cpu] { loop(i, cpu); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::Impl::stop() {
  stop_ = true;
  generation_.fetch_add(1);
  futex_wake_all(generation_);
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.thread.join();
}

void ThreadPool::Impl::call(size_t index) {
  try {
    MappedFile::guard([&] { (*job_)(index); });
  } catch (...) {
    workers_[index].error = std::current_exception();
    failed_.store(true, std::memory_order_relaxed);
  }
}

void ThreadPool::Impl::loop(size_t index, int cpu) {
  if (cpu >= 0) pin_this_thread(cpu);
  for (uint32_t seen = 0;;) {
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    while (!spin_until(spin_, called)) {
      sleepers_.fetch_add(1);
      if (generation_.load() == seen) futex_wait(generation_, seen);
      sleepers_.fetch_sub(1);
    }
    ++seen;  // run() waits for every worker, so the number moves one at a time
    if (stop_) return;
    call(index);
    if (pending_.fetch_sub(1) == 1 && caller_sleeps_.load() != 0) futex_wake_all(pending_);
  }
}

void ThreadPool::Impl::wait_for_workers() {
  const auto done = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  while (!spin_until(spin_, done)) {
    caller_sleeps_.store(1);
    const uint32_t left = pending_.load();
    if (left != 0) futex_wait(pending_, left);
    caller_sleeps_.store(0);
  }
}

ThreadPool::ThreadPool(Options options) : impl_(std::make_unique<Impl>()) { impl_->start(options); }

ThreadPool::~ThreadPool() { impl_->stop(); }

size_t ThreadPool::size() const { return impl_->workers_.size(); }

void ThreadPool::run(FunctionRef<void(size_t worker)> fn) {
  Impl& pool = *impl_;
  BF_CHECK(!pool.running_.exchange(true, std::memory_order_acquire))
      << "run() inside run(), or from two threads";
  pool.job_ = &fn;
  const size_t helpers = pool.workers_.size() - 1;
  if (helpers > 0) {
    pool.pending_.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
    pool.generation_.fetch_add(1);
    if (pool.sleepers_.load() != 0) futex_wake_all(pool.generation_);
  }
  pool.call(0);
  if (helpers > 0) pool.wait_for_workers();
  std::exception_ptr first;
  if (pool.failed_.exchange(false, std::memory_order_relaxed)) {
    for (Impl::Worker& worker : pool.workers_) {
      if (first == nullptr) first = worker.error;
      worker.error = nullptr;
    }
  }
  pool.running_.store(false, std::memory_order_release);
  if (first != nullptr) std::rethrow_exception(first);
}

void ThreadPool::parallel_for(size_t count, size_t grain, FunctionRef<void(size_t begin, size_t end)> fn) {
  BF_CHECK(grain > 0) << "parallel_for over " << count;
  if (count == 0) return;
  const size_t pieces = (count - 1) / grain + 1;
  const size_t used = std::min(size(), pieces);
  if (used == 1) {
    MappedFile::guard([&] { fn(0, count); });
    return;
  }
  // Worker w gets pieces [w * share + min(w, extra), ...): sizes differ by one piece at most.
  const size_t share = pieces / used;
  const size_t extra = pieces % used;
  run([&](size_t worker) {
    if (worker >= used) return;
    const size_t begin = worker * share + std::min(worker, extra);
    const size_t end = begin + share + (worker < extra ? 1 : 0);
    fn(begin * grain, std::min(count, end * grain));
  });
}

}  // namespace butterfly
