// What the whole machine does, as Linux tells it: other programs and heat make a node slower than it was
// measured to be.
#pragma once
#include <cstdint>
#include <filesystem>

namespace butterfly {

struct MachineLoad {
  double busy = 0;             // share of all CPUs' time that anybody used since the sample before, 0 to 1
  uint64_t process_bytes = 0;  // memory of this process, without files that it maps
  double celsius = 0;          // of the hottest sensor; 0: none can be seen
  uint64_t throttles = 0;      // how often heat has slowed a CPU down; 0: never, or it cannot be seen
  double held_up_s =
      0;  // how long what comes to this process waits until it runs, on average: base/late_watch.h
  bool operator==(const MachineLoad&) const = default;
};

// Sensors may be slow to answer: not for threads that must not wait. One thread.
class MachineLoadSampler {
 public:
  // `root` is the folder that holds proc and sys; tests pass a made-up one.
  explicit MachineLoadSampler(std::filesystem::path root = "/");
  // The first sample's `busy` is 0. What cannot be read is 0.
  MachineLoad sample();

 private:
  const std::filesystem::path root_;
  uint64_t used_ = 0, all_ = 0;  // ticks of the CPUs, at the last sample
};

}  // namespace butterfly
