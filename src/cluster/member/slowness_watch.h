// How slow nodes are against what plans take them for, from the counters in their beats.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "cluster/member/coordinator.h"

namespace butterfly::cluster {

// Of one job. All stages of a chain compute the same steps, so how long these are (texts in a batch, prompts)
// is no matter: what counts is a stage against the others. One thread.
class SlownessWatch {
 public:
  // Since the last look: by key, how many times as long as its capabilities say everything takes there, the
  // fastest node being 1. Only nodes with a stage of their own that computed kStepsMin steps; empty where
  // there are not two of them.
  std::map<std::string, double> look(const Coordinator& coordinator, const Job& job);

  static constexpr uint64_t kStepsMin = 5;

 private:
  struct Counters {
    Epoch epoch = 0;
    uint64_t steps = 0, compute_us = 0;
  };
  std::map<std::string, Counters> last_;
};

}  // namespace butterfly::cluster
