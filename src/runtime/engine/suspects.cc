#include "runtime/engine/suspects.h"

#include <algorithm>

namespace butterfly::runtime {

std::optional<RequestId> Suspects::lost(std::span<const UnderWay> requests) {
  std::map<RequestId, size_t> last;
  for (const UnderWay& row : requests) last[row.id] = std::max(last[row.id], row.last);
  for (const auto& [id, position] : last) {
    const auto it = losses_.try_emplace(id, Losses{0, position}).first;
    ++it->second.count;
  }
  if (last.size() != 1 || losses_.at(last.begin()->first).count < kLossesMax) return std::nullopt;
  losses_.erase(last.begin()->first);
  return last.begin()->first;
}

bool Suspects::passed(RequestId id, size_t last) {
  const auto it = losses_.find(id);
  return it != losses_.end() && last >= it->second.at && forget(id);
}

bool Suspects::forget(RequestId id) {
  const auto it = losses_.find(id);
  if (it == losses_.end()) return false;
  const bool was = it->second.suspect();
  losses_.erase(it);
  return was;
}

std::optional<RequestId> Suspects::alone() const {
  for (const auto& [id, losses] : losses_)
    if (losses.suspect()) return id;
  return std::nullopt;
}

}  // namespace butterfly::runtime
