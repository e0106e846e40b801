#include "runtime/training/work_times.h"

#include <sys/resource.h>

#include <algorithm>

namespace butterfly::runtime {

using cluster::kTrainTimeFields;

void WorkTimes::add(double cluster::TrainTimes::*field, TimePoint from, TimePoint to) {
  if (!begun_) return;
  from = std::max(from, first_);
  times_.*field += seconds_of(to - from);
  uint32_t index = 0;
  while (kTrainTimeFields[index].seconds != field) ++index;
  add_span(index, from, to);
}

void WorkTimes::add_span(uint32_t field, TimePoint from, TimePoint to) {
  if (!tracing_ || spans_.size() == cluster::kTrainSpansMax || to <= from) return;
  spans_.push_back({.field = field, .begin = seconds_of(from - dealt_), .end = seconds_of(to - dealt_)});
}

void WorkTimes::add_wait(TimePoint from, TimePoint to, const SendingSeconds& sent) {
  if (!begun_) return;
  from = std::max(from, first_);
  const auto part = [&](double cluster::TrainTimes::*field, double seconds) {
    const TimePoint end =
        std::min(to, from + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    if (end <= from) return;
    add(field, from, end);
    waited_for_sending_ += seconds_of(end - from);
    from = end;
  };
  part(&cluster::TrainTimes::compress, sent.compress);
  part(&cluster::TrainTimes::wire, sent.wire);
  if (from < to) add(&cluster::TrainTimes::wait, from, to);
}

void WorkTimes::add_beside(TimePoint from, TimePoint to) {
  if (begun_) add_span(cluster::kTrainSpanBeside, std::max(from, first_), to);
}

void WorkTimes::begin_step(TimePoint dealt, bool trace) {
  if (!begun_) first_ = system_now();
  begun_ = true;
  done_ = std::exchange(spans_, {});
  dealt_ = dealt;
  tracing_ = trace;
}

cluster::TrainTimes WorkTimes::totals(const SendingSeconds& sent) const {
  cluster::TrainTimes times = times_;
  times.beside = std::max(0.0, sent.total() - waited_for_sending_);
  times.other = begun_ ? seconds_of(system_now() - first_) : 0;
  for (const cluster::TrainTimeField& field : kTrainTimeFields)
    if (field.seconds != &cluster::TrainTimes::other) times.other -= times.*field.seconds;
  times.other = std::max(times.other, 0.0);
  return times;
}

double process_cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace butterfly::runtime
