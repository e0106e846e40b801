#include "runtime/nodes/node_memory.h"

#include <algorithm>

namespace butterfly::runtime {
namespace {

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

uint64_t NodeMemory::usable_bytes() const {
  const uint64_t free = free_();
  const std::lock_guard lock(mutex_);
  uint64_t usable = free;
  for (const auto& [job, row] : rows_) usable += row.resident;
  return bytes_max_ == 0 ? usable : std::min(usable, bytes_max_);
}

uint64_t NodeMemory::usable_bytes(cluster::JobId job) const {
  const uint64_t free = free_();
  const std::lock_guard lock(mutex_);
  uint64_t usable = free, bound = bytes_max_;
  for (const auto& [other, row] : rows_) {
    if (other == job) {
      usable += row.resident;
    } else {
      usable = less(usable, less(row.claimed, row.resident));
      bound = less(bound, row.claimed);
    }
  }
  return bytes_max_ == 0 ? usable : std::min(usable, bound);
}

void NodeMemory::claim(cluster::JobId job, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  rows_[job].claimed = bytes;
}

void NodeMemory::loaded(cluster::JobId job, uint64_t weight_bytes) {
  const std::lock_guard lock(mutex_);
  rows_[job].resident = weight_bytes;
}

void NodeMemory::release(cluster::JobId job) {
  const std::lock_guard lock(mutex_);
  rows_.erase(job);
  changed_.notify_all();
}

void NodeMemory::will_release(cluster::JobId job) {
  const std::lock_guard lock(mutex_);
  if (const auto found = rows_.find(job); found != rows_.end()) found->second.going = true;
}

void NodeMemory::wait_for_releases(cluster::JobId job, Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] {
    return std::ranges::none_of(rows_, [&](const auto& row) { return row.first != job && row.second.going; });
  });
}

}  // namespace butterfly::runtime
