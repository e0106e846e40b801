// What happened in the cluster, newest last: a bounded ring that `status` and the event stream read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cluster/member/epoch.h"

namespace butterfly::cluster {

enum class EventKind : uint8_t {
  kJoined,
  kReturned,  // a node that had been here before
  kRefused,
  kSuspect,
  kRecovered,
  kDead,
  kDraining,  // its parts are being moved away
  kDrained,   // it has none any more
  kLeft,
  kRemoved,
  kEnded,    // the process of a local node; it is started again
  kGivenUp,  // and this one is not
  kPlanned,
  kNoPlan,
  kLoaded,
  kLoadFailed,
  kServing,
  kRebalancing,  // nodes became slower or faster: layers should move
  kHalted,
  kMeasured,
  kUnreachable,  // one node by another
};
std::string_view event_name(EventKind kind);  // "joined", "load_failed"

struct ClusterEvent {
  uint64_t number = 0;  // 1, 2, 3 …
  TimePoint at{};
  EventKind kind = EventKind::kJoined;
  std::string node;  // name; empty: of the cluster
  Epoch epoch = 0;   // 0: of none
  std::string text;
};

// Not thread-safe.
class EventLog {
 public:
  explicit EventLog(size_t capacity = 1000) : capacity_(capacity) {}

  void add(TimePoint at, EventKind kind, std::string node, Epoch epoch, std::string text);
  // Those with larger numbers, oldest first, at most `count_max`. A gap in the numbers means that some were
  // overwritten.
  std::vector<ClusterEvent> since(uint64_t number, size_t count_max = SIZE_MAX) const;
  uint64_t last_number() const { return last_number_; }

 private:
  size_t capacity_;
  uint64_t last_number_ = 0;
  std::deque<ClusterEvent> events_;
};

}  // namespace butterfly::cluster
