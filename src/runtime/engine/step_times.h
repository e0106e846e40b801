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

// Running averages of the time of a step by its rows, while nothing is read in, and of the time that a row of
// a prompt adds. Times come in with the steps, so the same steps give the same answers. Of one
// thread.
class StepTimes {
 public:
  // While a machine is busy otherwise single steps take many times as long; one step moves an average by at
  // most a factor of 1.2.
  void add(const StepMix& mix, Duration time);

  // Seconds of a step of so many streams alone, from the nearest count that was seen; empty: none was.
  std::optional<double> stream_seconds(size_t streams) const;
  // Whether a step of this very shape was measured lately, nothing being read in.
  bool knows(const StepMix& mix) const;
  // True if nothing near was measured during the last `steps` steps: time to run one step without extras.
  bool is_stale(size_t streams, uint64_t steps) const;

  // What a prompt row takes, beside streams or without any; 0: not known yet.
  double prompt_row_seconds(bool beside_streams) const {
    return beside_streams && beside_row_.step > 0 ? beside_row_.seconds : prompt_row_.seconds;
  }

  // What `rows` guessed rows add to a step of so many streams that has `before` of them already, in tokens
  // that the streams could have had in that time. Products of few rows do not cost by the row: on matrix
  // units the second row of a step may cost a third of it and the ten behind it nothing. So every number of
  // rows has a time of its own, and those never seen lie between their neighbours.
  double draft_tokens(size_t streams, size_t before, size_t rows) const;

  // The model itself predicted so many tokens for each of some streams, one after the other, in this time;
  // and what that costs each of so many streams, in tokens. 0: nothing is known.
  void add_prediction(size_t tokens, Duration time);
  double predict_tokens(size_t streams, size_t tokens) const;

 private:
  struct Average {
    double seconds = 0;
    uint64_t step = 0;   // when last changed; 0: never
    bool again = false;  // more than once
    void add(double sample, uint64_t now);
  };
  const Average* nearest(size_t streams) const;
  // Of a step of so many rows, some of them guesses; `alone` is what one of `streams` takes.
  double decode_seconds(size_t rows, size_t streams, double alone) const;

  std::vector<Average> streams_;  // by number of streams
  std::vector<Average> drafted_;  // by number of rows, of steps with guesses
  Average prompt_row_, beside_row_, prediction_;
  uint64_t steps_ = 0;
};

}  // namespace butterfly::runtime
