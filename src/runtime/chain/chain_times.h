// Where the time of steps goes along a chain, node by node. For status pages and benches.
#pragma once
#include <mutex>
#include <vector>

#include "runtime/chain/step_message.h"

namespace butterfly::runtime {

// One step as the coordinator saw it.
struct ChainStep {
  uint64_t step = 0;
  size_t rows = 0;
  Duration total{};                // submit() to the result: with several steps under way, time in queues too
  std::vector<StageTimes> stages;  // first to last; the last is the coordinator's own
  bool passes_all = true;          // layers; false: a fill of some

  // What no stage counts as its own work: on the wire, in queues, waking up.
  Duration between() const;
};

// Sums over the steps of a chain, and the last step. Thread-safe; outlives chains: when the number of stages
// changes, the sums begin again.
class ChainTimes {
 public:
  struct View {
    uint64_t steps = 0;
    uint64_t rows = 0;
    Duration total{}, between{};
    std::vector<StageTimes> stages;
    ChainStep last;
  };
  void add(const ChainStep& step);
  View view() const;
  // What a row of a text that is read takes in all stages together, lately; 0: no step was timed. Of all
  // chains.
  double row_seconds() const;

 private:
  mutable std::mutex mutex_;
  View view_;
  double row_seconds_ = 0;
  size_t timed_rows_ = 0;  // of the steps behind row_seconds_, up to kManyRows
};

}  // namespace butterfly::runtime
