// Waiting for the next step of a running chain: spinning at about the time when it should come.
#pragma once
#include <array>
#include <cstddef>

#include "cluster/transport/link.h"

namespace butterfly::runtime {

// While streams run, the steps of a chain come at regular times. Waking a thread that sleeps costs some 50 us
// at the receiver and as much at the sender, so this one wakes up by itself a little before the message is
// expected and spins until it is there. When messages come at other times, it spins no more for a while, ever
// longer; when none come at all, it sleeps. Whoever waits here has nothing else to do, and other
// threads of its node lose at most kBefore + kBehind of one CPU for a step.
//
// Of one thread.
class StepWait {
 public:
  explicit StepWait(bool may_spin = true) : may_spin_(may_spin) {}

  // How long it spins around the expected time, at most.
  static constexpr Duration kBefore = std::chrono::milliseconds(5), kBehind = std::chrono::milliseconds(10);

  // As link.receive_head(timeout).
  Result<cluster::MessageHead> receive_head(cluster::Link& link, Duration timeout);

  uint64_t spin_hits() const { return spin_hits_; }
  uint64_t spins() const { return spins_; }

 private:
  Result<cluster::MessageHead> wait(cluster::Link& link, Duration timeout, TimePoint began);

  const bool may_spin_;
  Duration expected() const;  // the middle one of the last waits; 0: too few yet

  std::array<Duration, 5> last_{};  // waits
  size_t count_ = 0;
  size_t missed_ = 0;  // spins in vain, one after the other
  size_t pause_ = 0;   // messages until the next spin
  uint64_t spins_ = 0, spin_hits_ = 0;
};

// Whether this process has the CPU time for it: in a control group with less than one CPU's worth, spinning
// takes from computing.
bool may_spin_for_steps();

}  // namespace butterfly::runtime
