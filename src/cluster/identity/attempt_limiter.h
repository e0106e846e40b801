// How often an address may fail: for doors where secrets are tried.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace butterfly::cluster {

// After `burst` failures one more is allowed every `pause`. Only addresses that failed are remembered, at
// most kAddressesMax of them: the one that failed longest ago is forgotten first. Thread-safe.
class AttemptLimiter {
 public:
  static constexpr size_t kAddressesMax = 1024;

  AttemptLimiter(const Clock& clock, int burst, Duration pause)
      : clock_(clock), burst_(burst), pause_(pause) {}

  bool may_try(const std::string& address) const;
  void failed(const std::string& address);
  void succeeded(const std::string& address);

 private:
  // Failures drain away, one per pause: full at `burst_`.
  struct Bucket {
    double failures = 0;
    TimePoint as_of{};
  };
  double failures_now(const Bucket& bucket) const;

  const Clock& clock_;
  const int burst_;
  const Duration pause_;
  mutable std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace butterfly::cluster
