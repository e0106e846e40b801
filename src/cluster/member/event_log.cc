#include "cluster/member/event_log.h"

#include <algorithm>

namespace butterfly::cluster {

std::string_view event_name(EventKind kind) {
  switch (kind) {
    case EventKind::kJoined:
      return "joined";
    case EventKind::kReturned:
      return "returned";
    case EventKind::kRefused:
      return "refused";
    case EventKind::kSuspect:
      return "suspect";
    case EventKind::kRecovered:
      return "recovered";
    case EventKind::kDead:
      return "dead";
    case EventKind::kDraining:
      return "draining";
    case EventKind::kDrained:
      return "drained";
    case EventKind::kLeft:
      return "left";
    case EventKind::kRemoved:
      return "removed";
    case EventKind::kEnded:
      return "ended";
    case EventKind::kGivenUp:
      return "given_up";
    case EventKind::kPlanned:
      return "planned";
    case EventKind::kNoPlan:
      return "no_plan";
    case EventKind::kLoaded:
      return "loaded";
    case EventKind::kLoadFailed:
      return "load_failed";
    case EventKind::kServing:
      return "serving";
    case EventKind::kRebalancing:
      return "rebalancing";
    case EventKind::kHalted:
      return "halted";
    case EventKind::kMeasured:
      return "measured";
    case EventKind::kUnreachable:
      return "unreachable";
  }
  return "unknown";
}

void EventLog::add(TimePoint at, EventKind kind, std::string node, Epoch epoch, std::string text) {
  if (capacity_ == 0) return;
  if (events_.size() == capacity_) events_.pop_front();
  events_.push_back({++last_number_, at, kind, std::move(node), epoch, std::move(text)});
}

std::vector<ClusterEvent> EventLog::since(uint64_t number, size_t count_max) const {
  // Numbers in the ring are consecutive.
  const uint64_t first = events_.empty() ? 0 : events_.front().number;
  const size_t skip = events_.empty() || number < first ? 0 : static_cast<size_t>(number - first) + 1;
  std::vector<ClusterEvent> out;
  for (size_t i = skip; i < events_.size() && out.size() < count_max; ++i) out.push_back(events_[i]);
  return out;
}

}  // namespace butterfly::cluster
