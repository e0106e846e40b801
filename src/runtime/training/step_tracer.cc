#include "runtime/training/step_tracer.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kDrawEvery = std::chrono::seconds(1);

}  // namespace

bool StepTracer::begin(uint64_t step, TimePoint now) {
  if (drawn_ && step > *drawn_ + 1) {
    last_ = {.step = *drawn_, .rows = {}};
    for (auto& [member, row] : rows_) last_.rows.push_back(std::move(row));
    drawn_.reset();
    rows_.clear();
  }
  if (drawn_ || now - drawn_at_ < kDrawEvery) return false;
  drawn_at_ = now;
  drawn_ = step;
  return true;
}

void StepTracer::add(cluster::TrainMemberId member, const std::string& name,
                     const std::vector<cluster::TrainSpan>& spans) {
  if (!spans.empty() && drawn_) rows_[member] = {name, spans};
}

}  // namespace butterfly::runtime
