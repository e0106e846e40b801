// Which of a stage's links passes nothing any more: told by those who keep the links, before the system
// notices.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

// Looked at now and then (some 50 ms) by a thread that does not compute. Beats tell the next stage that the
// way to it works while no steps come, and while this one computes for long; so a link of which neither steps
// nor beats come is cut, even where something on the way still acknowledges what is sent. Of one thread.
class SilenceWatch {
 public:
  struct Cut {
    cluster::NodeId peer;
    std::string why;
  };
  // Beats on the links `to`; then: the first of them whose machine has acknowledged nothing for `limit`, or
  // of those in `from` on which nothing came for so long. A process that was itself stopped, with its machine
  // perhaps, has heard nobody: it listens for `limit` again before it judges. Null links are left out.
  std::optional<Cut> look(std::span<cluster::Link* const> to, std::span<cluster::Link* const> from,
                          Duration limit, TimePoint now = system_now());

 private:
  std::optional<TimePoint> looked_at_;
  TimePoint judges_from_{};
};

}  // namespace butterfly::runtime
