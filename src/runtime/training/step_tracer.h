// Draws a step now and then: where every member's computing thread spent its time.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/training/train_message.h"

namespace butterfly::runtime {

// What the members' computing threads did in one step, in seconds since it was dealt.
struct StepTrace {
  uint64_t step = 0;
  struct Row {
    std::string name;
    std::vector<cluster::TrainSpan> spans;
  };
  std::vector<Row> rows;
};

// Not thread-safe.
class StepTracer {
 public:
  // A step is dealt. True: it is one to draw; its spans come with the reports of the next one, and are whole
  // when that is over.
  bool begin(uint64_t step, TimePoint now);
  void add(cluster::TrainMemberId member, const std::string& name,
           const std::vector<cluster::TrainSpan>& spans);
  const StepTrace& last() const { return last_; }  // that is whole

 private:
  StepTrace last_;
  std::optional<uint64_t> drawn_;  // its spans are on their way
  TimePoint drawn_at_;
  std::map<cluster::TrainMemberId, StepTrace::Row> rows_;
};

}  // namespace butterfly::runtime
