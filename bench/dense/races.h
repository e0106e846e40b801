// The races that dense_race knows.
#pragma once
#include <string>
#include <vector>

namespace butterfly::bench {

struct RaceOptions {
  std::vector<int> threads = {1, 2};
  int rounds = 7;
  double seconds = 0.02;  // per runner and round
  std::string only;       // shapes whose name holds this
  bool cpu_time = false;  // see race()
};

void gemm_race(const RaceOptions& options);
void conv_race(const RaceOptions& options);
void memory_race(const RaceOptions& options);

}  // namespace butterfly::bench
