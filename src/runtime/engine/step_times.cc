#include "runtime/engine/step_times.h"

#include <algorithm>

namespace butterfly::runtime {
namespace {

constexpr double kWeight = 0.2;  // of a new sample
constexpr double kSampleRange =
    2;  // a sample counts as at most so many times the average, at least its inverse
constexpr double kDraftPrior = 0.3;  // of a step of one stream, before anything was measured

}  // namespace

void StepTimes::Average::add(double sample, uint64_t now) {
  if (step == 0) {
    seconds = sample;
  } else {
    seconds += kWeight * (std::clamp(sample, seconds / kSampleRange, seconds * kSampleRange) - seconds);
  }
  step = now;
}

void StepTimes::add(const StepMix& mix, Duration time) {
  ++steps_;
  const double seconds = std::chrono::duration<double>(time).count();
  if (mix.drafts == 0 && mix.prompt == 0) {
    if (mix.streams == 0) return;
    if (streams_.size() <= mix.streams) streams_.resize(mix.streams + 1);
    streams_[mix.streams].add(seconds, steps_);
    return;
  }
  if (mix.drafts > 0 && mix.prompt > 0) return;  // whose time was it?
  const auto alone = mix.streams == 0 ? std::optional<double>(0) : stream_seconds(mix.streams);
  if (!alone) return;
  // An extra row is never free, whatever a noisy clock says: a twentieth of its share is the least.
  const size_t extra = mix.drafts + mix.prompt;
  const double least = 0.05 * seconds / static_cast<double>(mix.streams + extra);
  const double row = std::max((seconds - *alone) / static_cast<double>(extra), least);
  (mix.drafts > 0 ? draft_row_ : mix.streams > 0 ? beside_row_ : prompt_row_).add(row, steps_);
}

const StepTimes::Average* StepTimes::nearest(size_t streams) const {
  const Average* best = nullptr;
  size_t best_distance = 0;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].step == 0) continue;
    const size_t distance = i > streams ? i - streams : streams - i;
    if (best == nullptr || distance < best_distance) {
      best = &streams_[i];
      best_distance = distance;
    }
  }
  return best;
}

std::optional<double> StepTimes::stream_seconds(size_t streams) const {
  const Average* average = nearest(streams);
  return average == nullptr ? std::nullopt : std::optional(average->seconds);
}

bool StepTimes::is_stale(size_t streams, uint64_t steps) const {
  const size_t near = 1 + streams / 4;
  for (size_t i = streams > near ? streams - near : 0; i <= streams + near && i < streams_.size(); ++i)
    if (streams_[i].step > 0 && streams_[i].step + steps > steps_) return false;
  return true;
}

double StepTimes::draft_row_tokens(size_t streams) const {
  const double count = static_cast<double>(streams);
  const auto step = stream_seconds(streams);
  if (!step || draft_row_.step == 0) return kDraftPrior * count;
  return draft_row_.seconds / *step * count;
}

}  // namespace butterfly::runtime
