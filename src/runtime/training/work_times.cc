#include "runtime/training/work_times.h"

#include <algorithm>

namespace butterfly::runtime {

using cluster::kTrainTimeFields;

void WorkTimes::add(double cluster::TrainTimes::*field, TimePoint from, TimePoint to) {
  if (!begun_) return;
  from = std::max(from, first_);
  times_.*field += seconds_of(to - from);
  if (!tracing_ || spans_.size() == cluster::kTrainSpansMax || to <= from) return;
  cluster::TrainSpan span{.begin = seconds_of(from - dealt_), .end = seconds_of(to - dealt_)};
  while (kTrainTimeFields[span.field].seconds != field) ++span.field;
  spans_.push_back(span);
}

void WorkTimes::begin_step(TimePoint dealt, bool trace) {
  if (!begun_) first_ = system_now();
  begun_ = true;
  done_ = std::exchange(spans_, {});
  dealt_ = dealt;
  tracing_ = trace;
}

cluster::TrainTimes WorkTimes::totals() const {
  cluster::TrainTimes times = times_;
  times.other = begun_ ? seconds_of(system_now() - first_) : 0;
  for (const cluster::TrainTimeField& field : kTrainTimeFields)
    if (field.seconds != &cluster::TrainTimes::other) times.other -= times.*field.seconds;
  times.other = std::max(times.other, 0.0);
  return times;
}

}  // namespace butterfly::runtime
