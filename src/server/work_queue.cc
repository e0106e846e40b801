#include "server/work_queue.h"

#include "base/give_way.h"
#include "base/thread_name.h"
#include "base/thread_priority.h"
#include "server/generation/heavy_work.h"

namespace butterfly::server {
namespace {

// Of threads with long jobs: below those that compute steps, serve the network and prepare short requests.
// A tenth of a CPU is theirs all the same, so that they do not sleep with a lock.
constexpr int kHeavyNice = 10;

}  // namespace

WorkQueue::WorkQueue(size_t light_threads, size_t heavy_threads, size_t waiting_max)
    : waiting_max_(waiting_max) {
  for (size_t i = 0; i < light_threads; ++i)
    threads_.emplace_back([this] {
      name_thread("bf-prepare");
      this_thread_is_light = true;
      wake_soon();
      work(lanes_[static_cast<size_t>(Weight::kLight)], nullptr);
    });
  for (size_t i = 0; i < heavy_threads; ++i)
    threads_.emplace_back([this] {
      name_thread("bf-prepare-long");
      come_after_others(kHeavyNice);
      GiveWay give_way;
      work(lanes_[static_cast<size_t>(Weight::kHeavy)], &give_way);
    });
}

WorkQueue::~WorkQueue() { stop(); }

bool WorkQueue::push(std::function<void()> job, Weight weight) {
  Lane& lane = lanes_[static_cast<size_t>(weight)];
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || lane.jobs.size() >= waiting_max_) return false;
    lane.jobs.push_back(std::move(job));
  }
  lane.changed.notify_one();
  return true;
}

void WorkQueue::stop() {
  std::array<std::deque<std::function<void()>>, kWeights> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (size_t i = 0; i < kWeights; ++i) dropped[i].swap(lanes_[i].jobs);
  }
  for (Lane& lane : lanes_) lane.changed.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void WorkQueue::work(Lane& lane, GiveWay* give_way) {
  std::unique_lock lock(mutex_);
  while (true) {
    lane.changed.wait(lock, [&] { return stopped_ || !lane.jobs.empty(); });
    if (stopped_) return;
    std::function<void()> job = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    lock.unlock();
    if (give_way != nullptr) give_way->begin();
    job();
    job = nullptr;  // what it holds goes before the lock is taken
    if (give_way != nullptr) give_way->end();
    lock.lock();
  }
}

}  // namespace butterfly::server
