#include "cluster/member/membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace butterfly::cluster {
namespace {

// A pair of nodes that failed so often, the last time not long ago, is avoided.
constexpr uint32_t kBroken = 2;

}  // namespace

std::string_view node_state_name(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kDead:
      return "dead";
    case NodeState::kLeft:
      return "left";
    case NodeState::kRemoved:
      return "removed";
  }
  return "unknown";
}

void Hold::extend(const CoordinatorConfig& config, bool firm, TimePoint now) {
  const bool worked = now - released > std::max(kWorkedTimes * config.hold_min, released - failed_at);
  if (now - failed_at > config.hold_max || worked) failures = 0;
  failed_at = now;
  ++failures;
  uint32_t doublings = failures > kBadLuck ? 1 : 0;
  if (failures > kWorseLuck) doublings = std::min(1 + failures - kWorseLuck, 16u);
  released = until = now + std::min(config.hold_max, config.hold_min * (int64_t{1} << doublings));
  firmly = firm;
}

bool Hold::ends(TimePoint now) {
  if (until == TimePoint{} || now < until) return false;
  until = {};
  firmly = false;
  return true;
}

Membership::Membership(CoordinatorConfig config, TimePoint now)
    : config_(std::move(config)),
      last_epoch_(first_epoch(config_.incarnation)),
      started_at_(now),
      survey_since_(now),
      events_(config_.events_max) {
  take_known_links(now);
}

Member* Membership::find(const NodeId& node) {
  const auto found = members_.find(node.key);
  return found == members_.end() ? nullptr : &found->second;
}

size_t Membership::nodes_here() const {
  return static_cast<size_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& row) { return row.second.here(); }));
}

size_t Membership::nodes_wanted() const {
  return config_.nodes_wanted - std::min(config_.nodes_wanted, nodes_given_up_);
}

void Membership::send(const Member& member, ToWorker message) {
  if (member.link != 0) act(SendToWorker{member.link, std::move(message)});
}

void Membership::send(const NodeId& node, ToWorker message) {
  if (const Member* member = find(node)) send(*member, std::move(message));
}

void Membership::note(TimePoint now, EventKind kind, const std::string& node, Epoch epoch, std::string text) {
  events_.add(now, kind, node, epoch, std::move(text));
}

void Membership::hold(Member& member, bool firmly, const std::string& why, TimePoint now) {
  member.hold.extend(config_, firmly, now);
  member.last_failure = why;
}

// Where a link could not be opened, somebody has to reach it first (check_survey). What was cut may be whole
// again any time.
bool Membership::is_broken(const BrokenPair& pair, TimePoint now) const {
  if (pair.unreachable) return now - pair.asked < config_.hold_max;
  return pair.times >= kBroken && now < rests_until(pair);
}

void Membership::note_broken(const NodeId& from, const NodeId& to, bool unreachable, TimePoint now) {
  if (broken_.size() >= kNodesMax * kNodesMax) return;
  BrokenPair& pair = broken_[{from.key, to.key}];
  const TimePoint rested = rests_until(pair);
  const bool worked = !pair.unreachable && now - rested > Hold::kWorkedTimes * (rested - pair.last);
  if (now - pair.last >= config_.hold_max || worked) pair = {};
  ++pair.times;
  pair.unreachable = pair.unreachable || unreachable;
  pair.cut = false;
  pair.last = pair.asked = now;
  pair.rests = true;
}

void Membership::note_cut(const NodeId& from, const NodeId& to, TimePoint now) {
  note_broken(from, to, false, now);
  if (const auto pair = broken_.find({from.key, to.key}); pair != broken_.end()) {
    pair->second.times = std::max(pair->second.times, kBroken);
    pair->second.cut = true;
  }
}

void Membership::blame(const NodeId& reporter, const NodeId& peer, TimePoint now) {
  Member* member = find(reporter);
  if (member == nullptr || reporter == config_.self) return;
  auto& troubles = member->troubles;
  std::erase_if(troubles, [&](const auto& row) { return now - row.second >= config_.hold_max; });
  troubles[peer.key] = now;
  if (troubles.size() < config_.troubles_max) return;
  hold(*member, true, fmt::format("it had trouble with {} neighbours", troubles.size()), now);
  troubles.clear();
}

TimePoint Membership::ask_again_at(const BrokenPair& pair) const {
  return pair.asked + std::min(config_.hold_max, config_.hold_min * (int64_t{1} << std::min(pair.asked_times, 16u)));
}

// Where nothing fits without pairs that failed, they are tried again, but each time it fails a pair rests
// twice as long: of several that do not work, one would be tried while another rests, for ever.
TimePoint Membership::rests_until(const BrokenPair& pair) const {
  const uint32_t first = pair.unreachable ? 1 : kBroken;
  const uint32_t doublings = std::min(pair.times - std::min(pair.times, first), 4u);
  return pair.last + std::min(config_.hold_max, config_.hold_min * (int64_t{1} << doublings));
}

std::vector<Membership::Pair> Membership::broken_pairs(bool with_held, TimePoint now) const {
  std::vector<Pair> pairs;
  for (const auto& [pair, failed] : broken_)
    if (is_broken(failed, now) && (!with_held || now < rests_until(failed))) pairs.push_back(pair);
  // Who was never reached by anybody is not tried from every single node, one plan after the other.
  for (const auto& [key, member] : members_) {
    const bool avoided = nobody_reaches(key, with_held, now) || (!with_held && is_doubtful(key, now));
    if (!member.here() || !avoided) continue;
    for (const auto& [from, other] : members_)
      if (from != key && other.here() && !broken_.contains({from, key})) pairs.push_back({from, key});
  }
  return pairs;
}

bool Membership::is_doubtful(const std::string& key, TimePoint now) const {
  // Every plan needs the coordinator's node: it is tried.
  return key != config_.self.key && std::ranges::any_of(broken_, [&](const auto& row) {
           return row.first.second == key && row.second.cut && now - row.second.last < config_.hold_min;
         });
}

bool Membership::nobody_reaches(const std::string& key, bool with_held, TimePoint now) const {
  if (reached_.contains(key)) return false;
  size_t tried = 0;
  for (const auto& [pair, failed] : broken_) {
    if (pair.second != key || !failed.unreachable || !is_broken(failed, now)) continue;
    if (with_held && now - failed.last >= config_.hold_min) return false;
    tried += pair.first == config_.self.key ? 2 : 1;
  }
  return tried >= 2;
}

bool Membership::may_be_mended(TimePoint now) const {
  return std::any_of(broken_.begin(), broken_.end(), [&](const auto& row) {
    return (is_broken(row.second, now) && now >= rests_until(row.second)) ||
           is_doubtful(row.first.second, now);
  });
}

bool Membership::has_rested(TimePoint now) {
  bool any = false;
  for (auto& [key, pair] : broken_) {
    if (!pair.rests || pair.unreachable || now < rests_until(pair)) continue;
    pair.rests = false;
    any = any || pair.times >= kBroken;
  }
  return any;
}

void Membership::forget_troubles(const std::string& key) {
  std::erase_if(broken_, [&](const auto& row) { return row.first.first == key || row.first.second == key; });
}

void Membership::forgive(Duration gap) {
  for (auto& [key, member] : members_) member.pulse.forgive(gap);
  if (measuring_) measuring_->second += gap;
}

}  // namespace butterfly::cluster
