// Trying again: later each time, and not all at once.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster {

struct BackoffOptions {
  Duration first = std::chrono::milliseconds(50);
  Duration max = std::chrono::seconds(5);
};

// Pauses that double up to a bound; each is drawn from the upper half of its range, so that nodes which lost
// the same peer do not come back in step. The same seed gives the same pauses.
class Backoff {
 public:
  explicit Backoff(uint64_t seed, BackoffOptions options = {}) : seed_(seed), options_(options) {}

  Duration next();
  // After a success: the next pause is short again. Draws go on where they were.
  void reset() { doublings_ = 0; }

 private:
  const uint64_t seed_;
  const BackoffOptions options_;
  uint64_t draws_ = 0;
  int doublings_ = 0;
};

// Calls `connect` until it gives a link, with pauses in between. Gives up with the last error at the
// deadline, with kCancelled once `stop` is true (looked at every 50 ms), and at once for errors that time
// does not mend: kInvalidArgument, kUnsupported, kCorrupt.
Result<std::unique_ptr<Link>> connect_with_retries(FunctionRef<Result<std::unique_ptr<Link>>()> connect,
                                                   Backoff& backoff, Clock& clock, const Deadline& deadline,
                                                   const std::atomic<bool>& stop);

}  // namespace butterfly::cluster
