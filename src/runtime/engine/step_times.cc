#include "runtime/engine/step_times.h"

#include <algorithm>

namespace butterfly::runtime {
namespace {

constexpr double kWeight = 0.2;  // of a new sample
constexpr double kSampleRange =
    2;  // a sample counts as at most so many times the average, at least its inverse
// A guessed row, before anything near was measured, and at least, whatever a noisy clock says: in steps.
constexpr double kDraftPrior = 0.3;
constexpr double kDraftLeast = 0.01;
// Steps with guesses are measured only while there are guesses. Should they have looked too dear once, they
// would never be tried again, so old figures are forgotten.
constexpr uint64_t kDraftMemory = 1024;

}  // namespace

void StepTimes::Average::add(double sample, uint64_t now) {
  if (step == 0) {
    seconds = sample;
  } else if (!again) {  // the first step of a shape also prepares it
    seconds = std::min(seconds, sample);
    again = true;
  } else {
    seconds += kWeight * (std::clamp(sample, seconds / kSampleRange, seconds * kSampleRange) - seconds);
  }
  step = now;
}

void StepTimes::add(const StepMix& mix, Duration time) {
  ++steps_;
  const double seconds = std::chrono::duration<double>(time).count();
  if (mix.prompt == 0) {
    auto& averages = mix.drafts == 0 ? streams_ : drafted_;
    const size_t rows = mix.streams + mix.drafts;
    if (mix.streams == 0) return;
    if (averages.size() <= rows) averages.resize(rows + 1);
    averages[rows].add(seconds, steps_);
    return;
  }
  if (mix.drafts > 0) return;  // whose time was it?
  const auto alone = mix.streams == 0 ? std::optional<double>(0) : stream_seconds(mix.streams);
  if (!alone) return;
  // An extra row is never free, whatever a noisy clock says: a twentieth of its share is the least.
  const double least = 0.05 * seconds / static_cast<double>(mix.streams + mix.prompt);
  const double row = std::max((seconds - *alone) / static_cast<double>(mix.prompt), least);
  (mix.streams > 0 ? beside_row_ : prompt_row_).add(row, steps_);
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

bool StepTimes::knows(const StepMix& mix) const {
  const auto& averages = mix.drafts == 0 ? streams_ : drafted_;
  const size_t rows = mix.streams + mix.drafts;
  return mix.prompt == 0 && rows < averages.size() && averages[rows].step > 0 &&
         averages[rows].step + kDraftMemory >= steps_;
}

bool StepTimes::is_stale(size_t streams, uint64_t steps) const {
  const size_t near = 1 + streams / 4;
  for (size_t i = streams > near ? streams - near : 0; i <= streams + near && i < streams_.size(); ++i)
    if (streams_[i].step > 0 && streams_[i].step + steps > steps_) return false;
  return true;
}

double StepTimes::decode_seconds(size_t rows, size_t streams, double alone) const {
  if (rows == streams) return alone;
  // The nearest figures below and above; below there is always the step without guesses.
  size_t low = streams, high = 0;
  double low_seconds = alone, high_seconds = 0;
  for (size_t i = streams + 1; i < drafted_.size(); ++i) {
    const Average& average = drafted_[i];
    if (average.step == 0 || average.step + kDraftMemory < steps_) continue;
    if (i <= rows) {
      low = i;
      low_seconds = average.seconds;
    } else {
      high = i;
      high_seconds = average.seconds;
      break;
    }
  }
  const double beyond = static_cast<double>(rows - low);
  if (high > 0) return low_seconds + (high_seconds - low_seconds) * beyond / static_cast<double>(high - low);
  // Beyond what was seen rows go on to cost what they have cost on average, if that is less than was feared.
  double row = kDraftPrior * alone;
  if (low > streams)
    row = std::clamp((low_seconds - alone) / static_cast<double>(low - streams), kDraftLeast * alone, row);
  return low_seconds + beyond * row;
}

double StepTimes::draft_tokens(size_t streams, size_t before, size_t rows) const {
  const double count = static_cast<double>(streams), least = kDraftLeast * static_cast<double>(rows);
  const auto alone = stream_seconds(streams);
  if (!alone || *alone <= 0) return kDraftPrior * count * static_cast<double>(rows);
  const double extra = decode_seconds(streams + before + rows, streams, *alone) -
                       decode_seconds(streams + before, streams, *alone);
  return count * std::max(extra / *alone, least);
}

void StepTimes::add_prediction(size_t tokens, Duration time) {
  if (tokens == 0) return;
  prediction_.add(std::chrono::duration<double>(time).count() / static_cast<double>(tokens), steps_ + 1);
}

double StepTimes::predict_tokens(size_t streams, size_t tokens) const {
  const auto alone = stream_seconds(streams);
  if (!alone || *alone <= 0) return 0;
  // All streams wait for one prediction, which is of all of them.
  return static_cast<double>(tokens) * prediction_.seconds / *alone;
}

}  // namespace butterfly::runtime
