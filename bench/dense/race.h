// Timing of several programs for one job by turns: what disturbs the machine meets all of them alike.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace butterfly::bench {

struct Runner {
  std::string name;
  std::function<void()> run;
};

// Median seconds per call of each runner over `rounds` rounds; a round gives each about `seconds`. Runners
// are left alone for a moment before their turn, since threads of others spin for a while.
// `cpu_time`: seconds of processor time of the whole process instead, which say something about one thread
// even on a busy machine.
std::vector<double> race(const std::vector<Runner>& runners, int rounds, double seconds, bool cpu_time);

// f32 operations per second of independent FMAs on `threads` threads, the best of some tries.
double fma_peak(int threads);

}  // namespace butterfly::bench
