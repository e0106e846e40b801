#include "cluster/member/health.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace butterfly::cluster {

void Pulse::beat(const Beat& beat, TimePoint now) {
  // A node without work has nothing to move; the time counts from when it got some.
  const bool moved = beat.progress != last_.progress || beat.epoch != last_.epoch ||
                     beat.phase != last_.phase || beat.pending == 0 || !working();
  if (beat.epoch != last_.epoch) {
    longest_step_ = {};
  } else if (beat.steps > last_.steps && beat.compute_us > last_.compute_us) {
    const uint64_t mean_us = (beat.compute_us - last_.compute_us) / (beat.steps - last_.steps);
    longest_step_ = std::max<Duration>(
        longest_step_,
        std::chrono::microseconds(static_cast<int64_t>(std::min<uint64_t>(mean_us, 3600000000u))));
  }
  heard_at_ = now;
  if (moved) moved_at_ = now;
  last_ = beat;
}

void Pulse::forgive(Duration gap) {
  heard_at_ += gap;
  moved_at_ += gap;
}

Verdict Pulse::judge(const HealthLimits& limits, Duration stall_after, TimePoint now) const {
  const Duration silent = now - heard_at_;
  const Duration still = working() ? now - moved_at_ : Duration{};
  // Work that may take long is suspected after a third of its time, as other work is.
  const Duration dead_still = std::max(limits.dead_after, stall_after);
  const Duration suspect_still = std::max(limits.suspect_after, stall_after / 3);
  if (silent >= limits.dead_after || still >= dead_still) return Verdict::kDead;
  if (silent >= limits.suspect_after || still >= suspect_still) return Verdict::kSuspect;
  return Verdict::kUp;
}

std::string Pulse::words(TimePoint now) const {
  const Duration silent = now - heard_at_, still = now - moved_at_;
  if (working() && still > silent + silent / 2)
    return fmt::format("no progress for {} with {} waiting", format_duration(still), last_.pending);
  return fmt::format("no heartbeat for {}", format_duration(silent));
}

}  // namespace butterfly::cluster
