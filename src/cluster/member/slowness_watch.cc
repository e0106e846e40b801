#include "cluster/member/slowness_watch.h"

#include <algorithm>

namespace butterfly::cluster {

std::map<std::string, double> SlownessWatch::look(const Coordinator& coordinator, const Job& job) {
  std::map<std::string, double> slowness;
  std::map<std::string, Counters> now;
  const Placement* placement = job.serving_placement();
  if (placement == nullptr || !job.connected()) {
    last_.clear();
    return slowness;
  }
  for (const StagePlacement& stage : placement->stages) {
    const auto member = coordinator.members().find(stage.first().key);
    if (stage.members.size() != 1 || member == coordinator.members().end()) continue;
    const JobBeat& beat = member->second.pulse.last(job.id());
    const double predicted_s = stage.members.front().predicted_s;
    if (beat.epoch != job.serving_epoch() || predicted_s <= 0) continue;
    now[member->first] = {beat.epoch, beat.steps, beat.compute_us};
    const auto before = last_.find(member->first);
    if (before == last_.end() || before->second.epoch != beat.epoch || beat.steps < before->second.steps ||
        beat.compute_us <= before->second.compute_us)
      continue;
    const uint64_t steps = beat.steps - before->second.steps;
    if (steps < kStepsMin) {
      now[member->first] = before->second;  // they count next time
      continue;
    }
    const double step_s =
        static_cast<double>(beat.compute_us - before->second.compute_us) / 1e6 / static_cast<double>(steps);
    // The prediction was made for a node that is slow already, if it was taken for one.
    slowness[member->first] = step_s / predicted_s * member->second.slowness;
  }
  last_ = std::move(now);
  if (slowness.size() < 2) return {};
  double least = slowness.begin()->second;
  for (const auto& [key, value] : slowness) least = std::min(least, value);
  for (auto& [key, value] : slowness) value /= least;
  return slowness;
}

}  // namespace butterfly::cluster
