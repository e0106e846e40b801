#include "runtime/chain/chain_times.h"

#include <algorithm>

namespace butterfly::runtime {
namespace {

constexpr size_t kManyRows = 32;    // in a step: a prompt is read
constexpr double kNewWeight = 0.2;  // of a step among those before it

}  // namespace

Duration ChainStep::between() const {
  Duration own{};
  for (const StageTimes& stage : stages) own += stage.compute + stage.wire();
  return std::max(Duration(0), total - own);
}

void ChainTimes::add(const ChainStep& step) {
  std::lock_guard lock(mutex_);
  if (view_.stages.size() != step.stages.size()) {
    view_ = {};
    view_.stages.resize(step.stages.size());
  }
  ++view_.steps;
  view_.rows += step.rows;
  view_.total += step.total;
  view_.between += step.between();
  for (size_t i = 0; i < step.stages.size(); ++i) view_.stages[i] += step.stages[i];
  view_.last = step;
  // Rows that share a step take less than one alone, so steps with many decide, once there are any.
  const size_t rows = std::min(step.rows, kManyRows);
  if (!step.passes_all || rows < timed_rows_ || rows == 0) return;
  Duration computed{};
  for (const StageTimes& stage : step.stages) computed += stage.compute;
  const double each = std::chrono::duration<double>(computed).count() / static_cast<double>(step.rows);
  row_seconds_ = rows > timed_rows_ ? each : row_seconds_ + kNewWeight * (each - row_seconds_);
  timed_rows_ = rows;
}

double ChainTimes::row_seconds() const {
  std::lock_guard lock(mutex_);
  return row_seconds_;
}

ChainTimes::View ChainTimes::view() const {
  std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace butterfly::runtime
