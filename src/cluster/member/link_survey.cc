// Which link is measured next: every pair of nodes once, one pair at a time, so that measurements do not
// disturb each other.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cluster/member/coordinator.h"

namespace butterfly::cluster {

void Coordinator::survey(const Member& member, TimePoint now) {
  if (!config_.measure_links) return;
  if (survey_.empty() && !measuring_) survey_since_ = now;
  for (const auto& [key, other] : members_) {
    if (!other.here() || other.id == member.id) continue;
    // The coordinator's node asks, where it is one of the two: it is the one that all can reach.
    Pair pair{key, member.id.key};
    if (member.id == config_.self) std::swap(pair.from, pair.to);
    const auto figures = figures_.find({pair.from, pair.to});
    if (figures == figures_.end() && std::find(survey_.begin(), survey_.end(), pair) == survey_.end())
      survey_.push_back(std::move(pair));
  }
}

void Coordinator::forget_survey(const NodeId& node) {
  const auto has = [&](const Pair& pair) { return pair.from == node.key || pair.to == node.key; };
  std::erase_if(survey_, has);
  if (measuring_ && has(measuring_->first)) measuring_.reset();
  // It may come back over another network.
  std::erase_if(figures_,
                [&](const auto& row) { return row.first.first == node.key || row.first.second == node.key; });
}

bool Coordinator::survey_done(TimePoint now) const {
  return (survey_.empty() && !measuring_) || now - survey_since_ >= config_.measure_wait;
}

void Coordinator::check_survey(TimePoint now) {
  if (measuring_ && now - measuring_->second >= config_.measure_wait) measuring_.reset();
  while (!measuring_ && !survey_.empty()) {
    const Pair pair = survey_.front();
    survey_.erase(survey_.begin());
    const auto from = members_.find(pair.from), to = members_.find(pair.to);
    if (from == members_.end() || to == members_.end() || !from->second.here() || !to->second.here() ||
        to->second.address.empty())
      continue;
    measuring_ = {pair, now};
    send(from->second, Measure{config_.incarnation, to->second.id, to->second.address});
  }
}

void Coordinator::handle(Member& member, const LinkReport& message, TimePoint now) {
  const Pair pair{member.id.key, message.peer.key};
  if (!measuring_ || !(measuring_->first == pair)) {
    ++counters_.old_epochs;
    return;
  }
  measuring_.reset();
  const auto peer = members_.find(pair.to);
  if (message.code != Errc::kOk || !(message.figures.bandwidth > 0) || peer == members_.end()) return;
  figures_[{pair.from, pair.to}] = message.figures;
  figures_[{pair.to, pair.from}] = message.figures;
  note(now, EventKind::kMeasured, member.id.name, 0,
       fmt::format(
           "to {}: {} and back, {}/s", peer->second.id.name,
           format_duration(std::chrono::nanoseconds(static_cast<int64_t>(message.figures.rtt_s * 1e9))),
           format_bytes(static_cast<uint64_t>(message.figures.bandwidth))));
  // A plan that was made without these figures may be improved.
  if (survey_.empty()) want_plan(now + config_.settle);
}

}  // namespace butterfly::cluster
