#include "server/work_queue.h"

#include <algorithm>

namespace butterfly::server {

WorkQueue::WorkQueue(size_t threads, size_t waiting_max) : waiting_max_(waiting_max) {
  // One of several is kept free of what may take long.
  for (size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this, only_light = i == 0 && threads > 1] { work(only_light); });
}

WorkQueue::~WorkQueue() { stop(); }

bool WorkQueue::push(std::function<void()> job, Weight weight) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || jobs_.size() >= waiting_max_) return false;
    jobs_.push_back({std::move(job), weight});
  }
  changed_.notify_all();  // not every thread takes every job
  return true;
}

void WorkQueue::stop() {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void WorkQueue::work(bool only_light) {
  std::unique_lock lock(mutex_);
  const auto next = [&] {
    return std::find_if(jobs_.begin(), jobs_.end(),
                        [&](const Job& job) { return !only_light || job.weight == Weight::kLight; });
  };
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || next() != jobs_.end(); });
    if (stopped_) return;
    const auto found = next();
    std::function<void()> job = std::move(found->run);
    jobs_.erase(found);
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

}  // namespace butterfly::server
