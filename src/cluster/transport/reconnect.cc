#include "cluster/transport/reconnect.h"

#include <algorithm>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

constexpr uint64_t kStream = 0x6261636b6f6666;  // "backoff"
constexpr int kDoublingsMax = 30;
constexpr Duration kLook = std::chrono::milliseconds(50);

bool time_mends(Errc code) {
  return code != Errc::kInvalidArgument && code != Errc::kUnsupported && code != Errc::kCorrupt;
}

}  // namespace

Duration Backoff::next() {
  const Duration whole = std::min<Duration>(options_.max, options_.first * (int64_t{1} << doublings_));
  doublings_ = std::min(doublings_ + 1, kDoublingsMax);
  const uint64_t half = static_cast<uint64_t>(whole.count() / 2);
  return whole - Duration(static_cast<int64_t>(random_u64(seed_, kStream, draws_++) % (half + 1)));
}

Result<std::unique_ptr<Link>> connect_with_retries(FunctionRef<Result<std::unique_ptr<Link>>()> connect,
                                                   Backoff& backoff, Clock& clock, const Deadline& deadline,
                                                   const std::atomic<bool>& stop) {
  for (;;) {
    if (stop.load()) return {Errc::kCancelled, "[reconnect] told to stop"};
    auto link = connect();
    if (link.ok()) {
      backoff.reset();
      return link;
    }
    if (!time_mends(link.status().code()) || deadline.expired()) return link;
    const TimePoint next_try = std::min(clock.now() + backoff.next(), deadline.when());
    while (clock.now() < next_try && !stop.load()) clock.sleep_until(std::min(next_try, clock.now() + kLook));
  }
}

}  // namespace butterfly::cluster
