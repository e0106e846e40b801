#include "server/work_queue.h"

namespace butterfly::server {

WorkQueue::WorkQueue(size_t threads, size_t waiting_max) : waiting_max_(waiting_max) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkQueue::~WorkQueue() { stop(); }

bool WorkQueue::push(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || jobs_.size() >= waiting_max_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkQueue::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || !jobs_.empty(); });
    if (stopped_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

}  // namespace butterfly::server
