#include "cluster/identity/attempt_limiter.h"

#include <algorithm>

namespace butterfly::cluster {

double AttemptLimiter::failures_now(const Bucket& bucket) const {
  const auto passed = std::chrono::duration<double>(clock_.now() - bucket.as_of);
  return std::max(0.0, bucket.failures - passed / std::chrono::duration<double>(pause_));
}

bool AttemptLimiter::may_try(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(address);
  return found == buckets_.end() || failures_now(found->second) <= burst_ - 1;
}

void AttemptLimiter::failed(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= kAddressesMax && !buckets_.contains(address))
    buckets_.erase(std::min_element(buckets_.begin(), buckets_.end(), [](const auto& a, const auto& b) {
      return a.second.as_of < b.second.as_of;
    }));
  Bucket& bucket = buckets_[address];
  bucket = {failures_now(bucket) + 1, clock_.now()};
}

void AttemptLimiter::succeeded(const std::string& address) {
  const std::lock_guard lock(mutex_);
  buckets_.erase(address);
}

}  // namespace butterfly::cluster
