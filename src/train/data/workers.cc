#include "train/data/workers.h"

#include "base/check.h"
#include "base/mapped_file.h"

namespace butterfly::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::chrono::nanoseconds since(SteadyClock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - start);
}

}  // namespace

Workers::Workers(size_t count) : workers_(count) {
  BF_CHECK(count > 0) << "no workers";
  try {
    for (size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (...) {
    queue_.close();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

Workers::~Workers() {
  queue_.close();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::call(size_t worker, const Item& item) {
  const auto start = SteadyClock::now();
  try {
    MappedFile::guard([&] { (*item.fn)(worker, item.index); });
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr || item.index < error_item_) {
      error_ = std::current_exception();
      error_item_ = item.index;
    }
  }
  workers_[worker].busy_ns.fetch_add(static_cast<uint64_t>(since(start).count()), std::memory_order_relaxed);
}

void Workers::work(size_t worker) {
  while (const auto item = queue_.pop()) {
    call(worker, *item);
    // The last one wakes run(). Everything the items wrote happened before this count.
    const size_t wanted = wanted_;
    if (finished_.fetch_add(1) + 1 == wanted) all_finished_.notify_all();
  }
}

void Workers::run(size_t count, FunctionRef<void(size_t worker, size_t item)> fn) {
  const auto start = SteadyClock::now();
  finished_.store(0);
  wanted_ = count;
  for (size_t i = 0; i < count; ++i) BF_CHECK(queue_.push({&fn, i})) << "the queue was closed";
  all_finished_.wait([&] { return finished_.load() == count; });
  wall_ += since(start) * static_cast<int64_t>(threads_.size());
  const std::exception_ptr error = std::exchange(error_, nullptr);
  if (error != nullptr) std::rethrow_exception(error);
}

WorkerTimes Workers::times() const {
  WorkerTimes times{.wall = wall_};
  for (const Worker& worker : workers_)
    times.busy += std::chrono::nanoseconds(worker.busy_ns.load(std::memory_order_relaxed));
  return times;
}

void Workers::reset_times() {
  wall_ = {};
  for (Worker& worker : workers_) worker.busy_ns.store(0, std::memory_order_relaxed);
}

}  // namespace butterfly::train
