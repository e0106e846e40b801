#include "cluster/member/health.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace butterfly::cluster {

void Pulse::beat(const JobBeat& beat, TimePoint now) {
  const auto [found, fresh] = jobs_.try_emplace(beat.job);
  JobPulse& pulse = found->second;
  const JobBeat& last = pulse.last;
  // A node without work has nothing to move; the time counts from when it got some.
  const bool moved = beat.progress != last.progress || beat.epoch != last.epoch || beat.phase != last.phase ||
                     beat.pending == 0 || !pulse.working();
  if (beat.epoch != last.epoch) {
    pulse.longest_step = {};
  } else if (beat.steps > last.steps && beat.compute_us > last.compute_us) {
    const uint64_t mean_us = (beat.compute_us - last.compute_us) / (beat.steps - last.steps);
    pulse.longest_step = std::max<Duration>(
        pulse.longest_step,
        std::chrono::microseconds(static_cast<int64_t>(std::min<uint64_t>(mean_us, 3600000000u))));
  }
  if (moved || fresh) pulse.moved_at = now;
  pulse.last = beat;
}

void Pulse::beat(const Beat& beat, TimePoint now) {
  heard_at_ = now;
  for (const JobBeat& job : beat.jobs) this->beat(job, now);
  std::erase_if(jobs_, [&](const auto& row) {
    return std::ranges::find(beat.jobs, row.first, &JobBeat::job) == beat.jobs.end();
  });
  last_ = beat;
}

const Pulse::JobPulse* Pulse::slowest() const {
  const JobPulse* slowest = nullptr;
  for (const auto& [job, pulse] : jobs_)
    if (pulse.working() && (slowest == nullptr || pulse.moved_at < slowest->moved_at)) slowest = &pulse;
  return slowest;
}

Duration Pulse::longest_step(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? Duration{} : found->second.longest_step;
}

const JobBeat& Pulse::last(JobId job) const {
  static const JobBeat kNone;
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? kNone : found->second.last;
}

void Pulse::forgive(Duration gap) {
  heard_at_ += gap;
  for (auto& [job, pulse] : jobs_) pulse.moved_at += gap;
}

Verdict Pulse::judge(const HealthLimits& limits, Duration stall_after, TimePoint now) const {
  const Duration silent = now - heard_at_;
  const JobPulse* waiting = slowest();
  const Duration still = waiting != nullptr ? now - waiting->moved_at : Duration{};
  // Work that may take long is suspected after a third of its time, as other work is.
  const Duration dead_still = std::max(limits.dead_after, stall_after);
  const Duration suspect_still = std::max(limits.suspect_after, stall_after / 3);
  if (silent >= limits.dead_after || still >= dead_still) return Verdict::kDead;
  if (silent >= limits.suspect_after || still >= suspect_still) return Verdict::kSuspect;
  return Verdict::kUp;
}

std::string Pulse::words(TimePoint now) const {
  const Duration silent = now - heard_at_;
  const JobPulse* waiting = slowest();
  const Duration still = waiting != nullptr ? now - waiting->moved_at : Duration{};
  if (still > silent + silent / 2)
    return fmt::format("no progress for {} with {} waiting", format_duration(still), waiting->last.pending);
  return fmt::format("no heartbeat for {}", format_duration(silent));
}

}  // namespace butterfly::cluster
