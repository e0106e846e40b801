// Waiting for the next step of a running chain: awake at about the time when it should come.
#pragma once
#include <array>
#include <cstddef>

#include "cluster/transport/link.h"

namespace butterfly::runtime {

// While streams run, the steps of a chain come at regular times. Waking a thread that sleeps costs some 50 us
// at the receiver and as much at the sender, so this one wakes up by itself a little before the message is
// expected and looks for it without sleeping. When messages come at other times, it stops looking for a
// while, ever longer; when none come at all, it sleeps. Whoever waits here has nothing else to do, and other
// threads of its node lose at most kBefore + kBehind of one CPU for a step.
//
// Of one thread.
class StepWait {
 public:
  explicit StepWait(bool looks = true) : may_look_(looks) {}

  // How long it looks around the expected time, at most.
  static constexpr Duration kBefore = std::chrono::milliseconds(5), kBehind = std::chrono::milliseconds(10);

  // As link.receive_head(timeout).
  Result<cluster::MessageHead> receive_head(cluster::Link& link, Duration timeout);

  uint64_t found_awake() const { return found_awake_; }
  uint64_t looks() const { return looks_; }

 private:
  Result<cluster::MessageHead> wait(cluster::Link& link, Duration timeout, TimePoint began);

  const bool may_look_;
  Duration expected() const;  // the middle one of the last waits; 0: too few yet

  std::array<Duration, 5> last_{};  // waits
  size_t count_ = 0;
  size_t missed_ = 0;  // looks in vain, one after the other
  size_t pause_ = 0;   // messages until the next look
  uint64_t looks_ = 0, found_awake_ = 0;
};

// Whether this process has the CPU time for it: in a control group with less than one CPU's worth, looking
// takes from computing.
bool may_look_for_steps();

}  // namespace butterfly::runtime
