// Whether what comes over a link crawls: it works, and is of no use.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace butterfly::cluster {

// Looks at records, the parts that a link's bytes are made of. One that comes in pieces took the time from
// its first piece to its last; one after the other slower than kBytesPerSecond is a crawl, and one that is
// not ends it. A cable with a bad contact and a machine on the way that lets bytes through one at a time look
// so; a network that anybody would use does not.
//
// began() and came() are the receiving thread's, crawling() is anybody's.
class Pace {
 public:
  static constexpr int64_t kBytesPerSecond = 4096;

  // A part of a record has come, and not all of it.
  void began(TimePoint now) {
    if (!began_) began_ = now;
  }
  // All of one, of so many bytes.
  void came(size_t bytes, TimePoint now) {
    const Duration took = began_ ? now - *began_ : Duration{};
    const Duration enough =
        std::chrono::nanoseconds(std::chrono::seconds(1)) / kBytesPerSecond * static_cast<int64_t>(bytes);
    if (took <= enough)
      since_.store(0, std::memory_order_relaxed);
    else if (since_.load(std::memory_order_relaxed) == 0)
      since_.store(began_->time_since_epoch().count(), std::memory_order_relaxed);
    began_.reset();
  }
  // For how long; zero: it does not.
  Duration crawling(TimePoint now) const {
    const int64_t since = since_.load(std::memory_order_relaxed);
    return since == 0 ? Duration{} : std::max(Duration{}, now.time_since_epoch() - Duration(since));
  }

 private:
  std::optional<TimePoint> began_;
  std::atomic<int64_t> since_{0};  // nanoseconds of the clock; 0: records come as they should
};

}  // namespace butterfly::cluster
