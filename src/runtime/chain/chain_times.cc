#include "runtime/chain/chain_times.h"

#include <algorithm>

namespace butterfly::runtime {

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
}

ChainTimes::View ChainTimes::view() const {
  std::lock_guard lock(mutex_);
  return view_;
}

}  // namespace butterfly::runtime
