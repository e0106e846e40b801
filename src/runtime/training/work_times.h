// Where the computing thread of a member spends its time, in all and within one step.
#pragma once
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/training/train_message.h"

namespace butterfly::runtime {

// Of the thread that sends for another, so far.
struct SendingSeconds {
  double compress = 0, wire = 0;
  double total() const { return compress + wire; }
  SendingSeconds since(const SendingSeconds& before) const {
    return {compress - before.compress, wire - before.wire};
  }
};

// Of one thread.
class WorkTimes {
 public:
  // Adds the time it lives to a field. They do not lie inside one another.
  class Timed {
   public:
    Timed(WorkTimes& times, double cluster::TrainTimes::*field)
        : times_(times), field_(field), start_(system_now()) {}
    ~Timed() { times_.add(field_, start_, system_now()); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    WorkTimes& times_;
    double cluster::TrainTimes::*const field_;
    const TimePoint start_;
  };

  void add(double cluster::TrainTimes::*field, TimePoint from, TimePoint to);
  // The thread stood still; what was sent for it meanwhile counts as that, and the rest as a wait for others.
  void add_wait(TimePoint from, TimePoint to, const SendingSeconds& sent);
  // What was sent for it, while it waited or not: for the picture of a step.
  void add_beside(TimePoint from, TimePoint to);
  // A step that was dealt at `dealt` begins now; `trace`: its spans are kept. Time before the first one does
  // not count.
  void begin_step(TimePoint dealt, bool trace);
  // Since the first step. `sent`: all that was sent for it.
  cluster::TrainTimes totals(const SendingSeconds& sent = {}) const;
  // Of the step before, if it was traced.
  std::vector<cluster::TrainSpan> take_spans() { return std::exchange(done_, {}); }

 private:
  void add_span(uint32_t field, TimePoint from, TimePoint to);

  cluster::TrainTimes times_;
  double waited_for_sending_ = 0;
  bool begun_ = false, tracing_ = false;
  TimePoint first_, dealt_;
  std::vector<cluster::TrainSpan> spans_, done_;
};

// Of all threads of this process since it began.
double process_cpu_seconds();

}  // namespace butterfly::runtime
