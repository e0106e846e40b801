#include "runtime/engine/stats.h"

#include <algorithm>

namespace butterfly::runtime {

void Histogram::add(Duration value) {
  const double seconds = std::chrono::duration<double>(value).count();
  ++buckets_[static_cast<size_t>(std::ranges::lower_bound(kSeconds, seconds) - kSeconds.begin())];
  ++count_;
  sum_seconds_ += seconds;
}

}  // namespace butterfly::runtime
