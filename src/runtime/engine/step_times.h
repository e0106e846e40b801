// How long steps take, learned from the steps themselves: how much prompt fits beside running streams, and
// what a guessed token costs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace butterfly::runtime {

// What a step was made of.
struct StepMix {
  size_t streams = 0;  // rows that continue a text, one for each stream
  size_t drafts = 0;   // guessed rows behind them
  size_t prompt = 0;   // rows that read a prompt in
};

// Running averages of the time of a step without extras, by the number of streams, and of the time each extra
// row adds. Times come in with the steps, so the same steps give the same answers.
class StepTimes {
 public:
  // While a machine is busy otherwise single steps take many times as long; one step moves an average by at
  // most a factor of 1.2.
  void add(const StepMix& mix, Duration time);

  // Seconds of a step of so many streams alone, from the nearest count that was seen; empty: none was.
  std::optional<double> stream_seconds(size_t streams) const;
  // True if nothing near was measured during the last `steps` steps: time to run one step without extras.
  bool is_stale(size_t streams, uint64_t steps) const;

  // What a prompt row takes, beside streams or without any; 0: not known yet.
  double prompt_row_seconds(bool beside_streams) const {
    return beside_streams && beside_row_.step > 0 ? beside_row_.seconds : prompt_row_.seconds;
  }
  // What one guessed row costs, in tokens that the streams could have had in that time.
  double draft_row_tokens(size_t streams) const;

 private:
  struct Average {
    double seconds = 0;
    uint64_t step = 0;  // when last changed; 0: never
    void add(double sample, uint64_t now);
  };
  const Average* nearest(size_t streams) const;

  std::vector<Average> streams_;  // by number of streams
  Average prompt_row_, beside_row_, draft_row_;
  uint64_t steps_ = 0;
};

}  // namespace butterfly::runtime
