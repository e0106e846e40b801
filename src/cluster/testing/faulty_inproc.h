// Links of one process that are slow and break, as a seed decides: for tests and the simulator.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "cluster/transport/link.h"

namespace butterfly::cluster::testing {

// Each message is delayed by a draw from delay_min..delay_max. A Link promises order, so a message waits for
// those before it, and a loss breaks the link; the last two are for tests of code that must bear messages
// which come twice or in another order, and lift that promise.
struct FaultOptions {
  uint64_t seed = 1;
  Duration delay_min{};
  Duration delay_max{};
  double break_chance = 0;      // per message: it is lost, and the link with it
  double duplicate_chance = 0;  // per message: it comes twice
  bool reorder = false;         // a message does not wait for those before it
};

struct FaultyStats {
  uint64_t duplicates = 0;
  uint64_t overtaken = 0;  // messages that came before one sent earlier
};

// One end. All ends of a pair belong to one thread, under a clock that this thread moves: a ManualClock with
// Sleep::kAdvances. A receive moves the clock to the message's arrival, or to its own deadline; send never
// waits.
class FaultyLink : public Link {
 public:
  // When the next message for this end arrives, or the break becomes known; nothing when nothing is on the
  // way. For event loops: receive_head(0) at that time gives it.
  virtual std::optional<TimePoint> next_arrival() const = 0;
  // Both ways together.
  virtual FaultyStats stats() const = 0;
  // As if the machine of the other end had lost power: nothing on the way arrives any more; who receives
  // waits in vain until it gives up (kTimeout), who sends notices nothing.
  virtual void go_silent() = 0;
};

// The same seed and the same calls give the same messages at the same times. `clock` outlives the links. At
// most 65,536 messages may be on the way in one direction: kQueueFull breaks the link.
std::pair<std::unique_ptr<FaultyLink>, std::unique_ptr<FaultyLink>> faulty_inproc_pair(NodeId a_id,
                                                                                       NodeId b_id,
                                                                                       Clock& clock,
                                                                                       FaultOptions options);

}  // namespace butterfly::cluster::testing
