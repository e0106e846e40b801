// Which link is measured next: one pair at a time, so that measurements do not disturb each other. Every pair
// of a small cluster; in a large one each node with the coordinator's and some others, and then the pairs
// that a plan made neighbours.
#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"
#include "base/units.h"
#include "cluster/member/membership.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kOthersAsked = 3;
constexpr size_t kUnreachableMax = 256;  // pairs remembered, for status pages

// The same few peers for a node every time, others for every node.
uint64_t rank_of(const std::string& a, const std::string& b) {
  return std::hash<std::string>{}(std::min(a, b) + '/' + std::max(a, b));
}

}  // namespace

void Membership::survey_pair(const Member& from, const Member& to, TimePoint now) {
  if (!from.here() || !to.here() || from.id == to.id) return;
  // The coordinator's node asks, where it is one of the two: it is the one that all can reach.
  Pair pair(from.id.key, to.id.key);
  if (to.id == config_.self) std::swap(pair.first, pair.second);
  const auto measured = measured_at_.find(pair);
  if (measured != measured_at_.end() && now - measured->second < config_.figures_age) return;
  if (measuring_ && measuring_->first == pair) return;
  if (std::find(survey_.begin(), survey_.end(), pair) != survey_.end()) return;
  if (survey_.empty() && !measuring_) survey_size_ = 0;
  ++survey_size_;
  // Those of the coordinator's node first: they tell who can be reached at all.
  auto at = survey_.end();
  if (pair.first == config_.self.key)
    at = std::find_if(survey_.begin(), survey_.end(),
                      [&](const Pair& p) { return p.first != config_.self.key; });
  survey_.insert(at, std::move(pair));
}

void Membership::survey(const Member& member, TimePoint now) {
  if (!config_.measure_links) return;
  if (survey_.empty() && !measuring_) survey_since_ = now;
  std::vector<const Member*> others;
  for (const auto& [key, other] : members_)
    if (other.here() && other.id != member.id) others.push_back(&other);
  std::ranges::sort(others, {}, [&](const Member* other) {
    return std::pair(other->id != config_.self, rank_of(member.id.key, other->id.key));
  });
  if (member.id != config_.self && others.size() > config_.measure_peers + 1)
    others.resize(config_.measure_peers + 1);
  for (const Member* other : others) survey_pair(*other, member, now);
}

void Membership::survey_chain(const Placement& placement, TimePoint now) {
  if (!config_.measure_links) return;
  for (size_t i = 0; i + 1 < placement.stages.size(); ++i) {
    const auto from = members_.find(placement.stages[i].first().key),
               to = members_.find(placement.stages[i + 1].first().key);
    if (from != members_.end() && to != members_.end()) survey_pair(from->second, to->second, now);
  }
}

// Whoever asks for the status hears of it, and `to` itself: most often a firewall there is in the way, and
// only its user can open it.
void Membership::cannot_reach(const Member& from, const Member& to, const std::string& why, TimePoint now) {
  note_broken(from.id, to.id, true, now);
  const Pair pair(from.id.key, to.id.key);
  if (unreachable_.size() < kUnreachableMax || unreachable_.contains(pair))
    unreachable_[pair] = {from.id, to.id, to.address, why, now};
  send(to, Notice{config_.incarnation, shorten(fmt::format("{} cannot reach this node at {}: {}",
                                                           from.id.name, to.address, why))});
}

// Takes the notice back once nobody is left who cannot reach it.
void Membership::can_reach(const Pair& pair) {
  if (unreachable_.erase(pair) == 0) return;
  for (const auto& [other, row] : unreachable_)
    if (other.second == pair.second) return;
  if (const auto member = members_.find(pair.second); member != members_.end())
    send(member->second, Notice{config_.incarnation, ""});
}

void Membership::forget_unreachable(const std::string& key) {
  std::vector<Pair> pairs;
  for (const auto& [pair, row] : unreachable_)
    if (pair.first == key || pair.second == key) pairs.push_back(pair);
  for (const Pair& pair : pairs) can_reach(pair);
}

std::string Membership::survey_words() const {
  const size_t left = survey_.size() + (measuring_ ? 1 : 0);
  if (left == 0) return {};
  return fmt::format("measuring links, {} of {} done", survey_size_ - std::min(survey_size_, left),
                     survey_size_);
}

void Membership::stop_survey(const NodeId& node) {
  const auto has = [&](const Pair& pair) { return pair.first == node.key || pair.second == node.key; };
  std::erase_if(survey_, has);
  forget_unreachable(node.key);
  if (measuring_ && has(measuring_->first)) measuring_.reset();
}

// Figures of an earlier start count as if they had been measured then.
void Membership::take_known_links(TimePoint now) {
  for (const KnownLink& link : config_.known_links) {
    const Duration age = std::chrono::milliseconds(config_.unix_ms - link.unix_ms);
    if (age < Duration::zero() || age >= config_.figures_age) continue;  // or the clock was set back
    for (const Pair& pair : {Pair(link.from, link.to), Pair(link.to, link.from)}) {
      figures_[pair] = link.figures;
      measured_at_[pair] = now - age;
    }
    addresses_[link.from] = link.from_address;
    addresses_[link.to] = link.to_address;
  }
}

std::vector<KnownLink> Membership::known_links(TimePoint now) const {
  const auto storable = [&](const std::string& key) {
    const auto found = addresses_.find(key);
    return found != addresses_.end() && !found->second.empty() &&
           found->second.find_first_of(" \t\r\n") == std::string::npos;
  };
  std::vector<KnownLink> links;
  for (const auto& [pair, at] : measured_at_) {
    const auto& [from, to] = pair;
    if (from > to || now - at >= config_.figures_age || !storable(from) || !storable(to)) continue;
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(at - started_at_);
    links.push_back({from, to, addresses_.at(from), addresses_.at(to), config_.unix_ms + since.count(),
                     figures_.at(pair)});
  }
  return links;
}

void Membership::arrives_at(const std::string& key, const std::string& address) {
  const auto known = addresses_.find(key);
  if (known != addresses_.end() && known->second != address) forget_links(key);  // another network
  addresses_[key] = address;
}

void Membership::forget_links(const std::string& key) {
  const auto has = [&](const auto& row) { return row.first.first == key || row.first.second == key; };
  std::erase_if(figures_, has);
  std::erase_if(measured_at_, has);
  addresses_.erase(key);
  ++links_changes_;
  reached_.erase(key);
  forget_troubles(key);
}

bool Membership::survey_done(TimePoint now) const {
  return (survey_.empty() && !measuring_) || now - survey_since_ >= config_.measure_wait;
}

std::optional<LinkFigures> Membership::estimate(const std::string& a, const std::string& b) const {
  const auto to_a = figures_.find({config_.self.key, a}), to_b = figures_.find({config_.self.key, b});
  if (to_a == figures_.end() || to_b == figures_.end()) return std::nullopt;
  const LinkFigures &x = to_a->second, &y = to_b->second;
  LinkFigures estimated = x.bandwidth < y.bandwidth ? x : y;
  estimated.rtt_s = std::max(x.rtt_s, y.rtt_s);
  return estimated;
}

void Membership::check_survey(TimePoint now) {
  if (measuring_ && now - measuring_->second >= config_.measure_wait) measuring_.reset();
  // What could not be reached is asked again, before a plan would try it: soon at first, since it may have
  // been a moment's trouble, and later after each time.
  for (auto& [pair, failed] : broken_) {
    if (!config_.measure_links || !failed.unreachable || now < ask_again_at(failed)) continue;
    failed.asked = now;
    ++failed.asked_times;
    // This very way, however lately figures of it were taken: whether it works is the question.
    if (std::ranges::count(survey_, pair) == 0) survey_.push_back(pair);
  }
  while (!measuring_ && !survey_.empty()) {
    const Pair pair = survey_.front();
    survey_.erase(survey_.begin());
    const auto from = members_.find(pair.first), to = members_.find(pair.second);
    if (from == members_.end() || to == members_.end() || !from->second.here() || !to->second.here() ||
        to->second.address.empty())
      continue;
    measuring_ = {pair, now};
    send(from->second, Measure{config_.incarnation, to->second.id, to->second.address});
  }
}

// Whether it is the way from here, or the node itself.
void Membership::ask_others(const Member& peer) {
  size_t asked = 0;
  for (const auto& [key, other] : members_) {
    if (!other.here() || other.id == peer.id || other.id == config_.self) continue;
    const Pair pair(key, peer.id.key);
    if (broken_.contains(pair) || std::find(survey_.begin(), survey_.end(), pair) != survey_.end()) continue;
    survey_.push_back(pair);
    if (++asked == kOthersAsked) return;
  }
}

bool Membership::link_report(const Member& member, const LinkReport& message, TimePoint now) {
  const Pair pair(member.id.key, message.peer.key);
  if (!measuring_ || measuring_->first != pair) {
    ++counters_.old_epochs;
    return false;
  }
  measuring_.reset();
  const Member* peer = find(message.peer);
  if (peer == nullptr) return false;
  if (message.code != Errc::kOk || !(message.figures.bandwidth > 0)) {
    cannot_reach(member, *peer, message.text, now);
    note(now, EventKind::kUnreachable, member.id.name, 0,
         fmt::format("cannot reach {} at {}: {}", peer->id.name, peer->address, message.text));
    if (member.id == config_.self) {
      reached_.erase(peer->id.key);
      ask_others(*peer);
    }
  } else {
    broken_.erase(pair);
    reached_.insert(peer->id.key);
    can_reach(pair);
    for (const Pair& both : {pair, Pair(pair.second, pair.first)}) {
      figures_[both] = message.figures;
      measured_at_[both] = now;
    }
    ++links_changes_;
    note(now, EventKind::kMeasured, member.id.name, 0,
         fmt::format(
             "to {}: {} and back, {}/s", peer->id.name,
             format_duration(std::chrono::nanoseconds(static_cast<int64_t>(message.figures.rtt_s * 1e9))),
             format_bytes(static_cast<uint64_t>(message.figures.bandwidth))));
  }
  return survey_.empty();
}

}  // namespace butterfly::cluster
