#include "cluster/member/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "cluster/member/message_fields.h"

namespace butterfly::cluster {
namespace {

bool within_bounds(const NodeId& id) {
  return !id.key.empty() && id.key.size() <= kKeyBytesMax && id.name.size() <= kNameBytesMax;
}

// A step that takes this many times the longest one before it stands still; but nothing may take for ever.
constexpr int kStallSteps = 6;
constexpr Duration kStallMost = std::chrono::minutes(2);

bool positive(const ThreadedRate& rate) { return rate.one > 0 && rate.all > 0; }

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

Coordinator::Coordinator(CoordinatorConfig config, TimePoint now)
    : config_(std::move(config)),
      started_at_(now),
      model_at_(now),
      last_epoch_(first_epoch(config_.incarnation)),
      survey_since_(now),
      beat_at_(now),
      ticked_at_(now),
      events_(config_.events_max) {
  BF_CHECK(within_bounds(config_.self)) << "[coordinator] the key or name of its own node is too long";
  BF_CHECK(config_.address.size() <= kAddressBytesMax) << "[coordinator] address " << config_.address;
}

std::vector<CoordinatorAction> Coordinator::take_actions() { return std::exchange(actions_, {}); }

void Coordinator::send(const Member& member, ToWorker message) {
  if (member.link != 0) actions_.emplace_back(SendToWorker{member.link, std::move(message)});
}

void Coordinator::note(TimePoint now, EventKind kind, const std::string& node, Epoch epoch,
                       std::string text) {
  events_.add(now, kind, node, epoch, std::move(text));
}

Member* Coordinator::member_of(LinkNumber link) {
  const auto open = links_.find(link);
  if (open == links_.end() || !open->second.joined) return nullptr;
  const auto member = members_.find(open->second.peer.key);
  return member != members_.end() && member->second.link == link ? &member->second : nullptr;
}

// ---- Links ----

void Coordinator::link_opened(LinkNumber link, const NodeId& peer, TimePoint now) {
  if (links_.size() >= config_.links_max || !within_bounds(peer)) {
    ++counters_.refused;
    actions_.emplace_back(
        CloseLink{link, links_.size() >= config_.links_max ? "too many links" : "its name"});
    return;
  }
  links_[link] = {peer, now, false};
  if (removed_.contains(peer.key)) refuse(link, "this node was removed from the cluster", true, now);
}

void Coordinator::close(LinkNumber link, std::string why) {
  if (links_.erase(link) > 0) actions_.emplace_back(CloseLink{link, std::move(why)});
}

void Coordinator::link_closed(LinkNumber link, std::string_view why, TimePoint now) {
  Member* member = member_of(link);
  if (links_.erase(link) == 0 || member == nullptr) return;
  lose(*member, NodeState::kDead, EventKind::kDead, fmt::format("its link closed: {}", why), now);
}

void Coordinator::received(LinkNumber link, const ToCoordinator& message, TimePoint now) {
  const auto open = links_.find(link);
  if (open == links_.end()) {
    ++counters_.unknown_links;
    return;
  }
  if (!open->second.joined) {
    if (const Join* first = std::get_if<Join>(&message)) return join(link, *first, now);
    ++counters_.unexpected;
    close(link, fmt::format("'{}' before 'join'", name_of(message)));
    return;
  }
  Member* member = member_of(link);
  if (member == nullptr) {
    ++counters_.unknown_links;
    return;
  }
  std::visit([&](const auto& m) { handle(*member, m, now); }, message);
}

void Coordinator::received_garbage(LinkNumber link, std::string_view why, TimePoint now) {
  Member* member = member_of(link);
  ++counters_.unexpected;
  close(link, std::string(why));
  if (member != nullptr)
    lose(*member, NodeState::kDead, EventKind::kDead, fmt::format("it broke the protocol: {}", why), now);
}

void Coordinator::check_links(TimePoint now) {
  std::vector<LinkNumber> late;
  for (const auto& [link, open] : links_)
    if (!open.joined && now - open.opened_at >= config_.join_wait) late.push_back(link);
  for (const LinkNumber link : late) close(link, "no 'join' came");
}

// ---- Joining ----

void Coordinator::refuse(LinkNumber link, std::string text, bool forever, TimePoint now) {
  const auto open = links_.find(link);
  if (open == links_.end()) return;
  ++counters_.refused;
  note(now, EventKind::kRefused, open->second.peer.name, 0, text);
  actions_.emplace_back(SendToWorker{link, Refuse{forever, shorten(text)}});
  close(link, std::move(text));
}

Coordinator::Refusal Coordinator::why_refuse(const NodeId& peer, const Join& message, TimePoint now) {
  const Capabilities& c = message.capabilities;
  if (removed_.contains(peer.key)) return {"this node was removed from the cluster", true};
  if (message.protocol != kMemberProtocol)
    return {fmt::format("it speaks version {} of the protocol, this cluster speaks {}: install the same "
                        "program on both",
                        message.protocol, kMemberProtocol),
            true};
  if (c.numerics_id != config_.numerics_id)
    return {fmt::format("its numerics id is {}, this cluster's is {}: results would differ; install the same "
                        "program on both",
                        c.numerics_id, config_.numerics_id),
            true};
  if (c.threads == 0 || !positive(c.memory) || !positive(c.f32) || !positive(c.int8))
    return {"its capabilities are not measured", true};
  const auto known = members_.find(peer.key);
  if (known == members_.end()) {
    if (members_.size() >= kNodesMax && !make_room())
      return {fmt::format("the cluster is full: {} nodes", kNodesMax), false};
    return {};
  }
  const Member& member = known->second;
  // A half-open link of the same process, or of the one before it, is silent. A second machine with a copied
  // key is not the same node: the one that is here stays.
  if (member.here() && member.instance != message.instance &&
      now - member.pulse.heard_at() < config_.health.suspect_after) {
    ++counters_.duplicate_ids;
    return {fmt::format("a node with this identity ('{}') is here already; a copied state folder needs its "
                        "own 'butterfly join'",
                        member.id.name),
            false};
  }
  return {};
}

// Forgets the member that has been away longest.
bool Coordinator::make_room() {
  auto oldest = members_.end();
  for (auto it = members_.begin(); it != members_.end(); ++it)
    if (!it->second.here() &&
        (oldest == members_.end() || it->second.pulse.heard_at() < oldest->second.pulse.heard_at()))
      oldest = it;
  if (oldest == members_.end()) return false;
  forget_links(oldest->first);
  members_.erase(oldest);
  return true;
}

void Coordinator::join(LinkNumber link, const Join& message, TimePoint now) {
  const NodeId peer = links_.at(link).peer;
  if (Refusal refusal = why_refuse(peer, message, now); !refusal.text.empty())
    return refuse(link, std::move(refusal.text), refusal.forever, now);
  const auto known = members_.find(peer.key);
  const bool returned = known != members_.end();
  if (returned && known->second.address != message.address) forget_links(peer.key);  // another network
  if (returned && known->second.here())
    lose(known->second, NodeState::kDead, EventKind::kDead, "it came back over a new link", now);
  links_.at(link).joined = true;
  Member& member = members_[peer.key];
  member.id = peer;
  member.state = NodeState::kUp;
  member.link = link;
  member.instance = message.instance;
  member.address = message.address;
  member.capabilities = message.capabilities;
  member.pulse = Pulse(now);
  member.joined_at = now;
  const auto here_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - started_at_).count();
  if (config_.unix_ms != 0 && message.unix_ms != 0)
    member.clock_ahead_s = (static_cast<double>(message.unix_ms) - static_cast<double>(config_.unix_ms) -
                            static_cast<double>(here_ms)) /
                           1000;
  std::erase_if(broken_,
                [&](const auto& row) { return row.first.first == peer.key || row.first.second == peer.key; });
  note(now, returned ? EventKind::kReturned : EventKind::kJoined, peer.name, 0,
       fmt::format("{}, {} thread{}, {}", member.capabilities.cpu, member.capabilities.threads,
                   member.capabilities.threads == 1 ? "" : "s",
                   format_bytes(member.capabilities.ram_limit_bytes)));
  Welcome welcome{config_.incarnation, config_.beat_every, {}};
  for (const std::string& key : removed_)
    if (welcome.removed.size() < kRemovedMax) welcome.removed.push_back(key);
  send(member, std::move(welcome));
  survey(member, now);
  want_plan(now + config_.settle);
}

// ---- What members say ----

void Coordinator::handle(Member& member, const Join&, TimePoint now) {
  received_garbage(member.link, "a second 'join'", now);
}

void Coordinator::handle(Member& member, const Beat& message, TimePoint now) {
  const Beat& before = member.pulse.last();
  const double passed = std::chrono::duration<double>(now - member.pulse.heard_at()).count();
  const bool counts = message.epoch == before.epoch && message.rows >= before.rows && passed > 0;
  const double rate = counts ? static_cast<double>(message.rows - before.rows) / passed : 0;
  const double weight = std::min(1.0, passed / 2);  // an average over some two seconds
  member.rows_per_s = counts ? member.rows_per_s + weight * (rate - member.rows_per_s) : 0;
  member.pulse.beat(message, now);
}

void Coordinator::handle(Member& member, const Prepared& message, TimePoint now) {
  const bool current =
      change_ && change_->epoch == message.epoch && change_->phase == ChangePhase::kPreparing;
  const auto peer = members_.find(message.peer.key);
  if (current && message.code != Errc::kOk && peer != members_.end()) {
    // Its weights are there, the way to the next stage is not. What is served goes on.
    note_broken(member.id, peer->second.id, true, now);
    give_up_change(fmt::format("{} cannot reach {}: {}", member.id.name, peer->second.id.name, message.text),
                   member.id.name, now);
    return want_plan(now + retry_delay());
  }
  reported(member, message.epoch, ChangePhase::kPreparing, message.code, message.text, now);
}

void Coordinator::handle(Member& member, const Ready& message, TimePoint now) {
  const bool current =
      change_ && change_->epoch == message.epoch && change_->waiting_for.contains(member.id.key);
  if (current && message.code == Errc::kOk)
    note(now, EventKind::kLoaded, member.id.name, message.epoch,
         fmt::format("{} in {}", format_bytes(message.bytes),
                     format_duration(std::chrono::milliseconds(message.ms))));
  reported(member, message.epoch, ChangePhase::kLoading, message.code, message.text, now);
}

void Coordinator::handle(Member& member, const Started& message, TimePoint now) {
  if (message.code == Errc::kOk)
    return reported(member, message.epoch, ChangePhase::kStarting, message.code, message.text, now);
  // It could not reach the next stage: who of the two is to blame is not known.
  NodeId next = config_.self;
  if (change_ && change_->epoch == message.epoch)
    for (size_t i = 0; i + 1 < change_->placement.stages.size(); ++i)
      if (change_->placement.stages[i].first() == member.id) next = change_->placement.stages[i + 1].first();
  trouble(message.epoch, member.id, next, message.text, now);
}

void Coordinator::handle(Member& member, const Trouble& message, TimePoint now) {
  trouble(message.epoch, member.id, message.peer, message.text, now);
}

void Coordinator::handle(Member& member, const Leave& message, TimePoint now) {
  lose(member, NodeState::kLeft, EventKind::kLeft, message.text.empty() ? "it left" : message.text, now);
}

// ---- Leaving ----

void Coordinator::lose(Member& member, NodeState state, EventKind kind, std::string why, TimePoint now) {
  if (!member.here()) return;
  const LinkNumber link = std::exchange(member.link, LinkNumber{0});
  member.state = state;
  close(link, why);
  stop_survey(member.id);
  const bool served = serving_ && serving_->placement.find(member.id) != nullptr;
  const bool planned =
      change_ && (change_->phase == ChangePhase::kPlanning ? change_->asked.contains(member.id.key)
                                                           : change_->placement.find(member.id) != nullptr);
  note(now, kind, member.id.name, served ? serving_->epoch : 0, why);
  if (state == NodeState::kDead) {
    hold(member, false, why, now);
    if (served || planned) last_failure_ = fmt::format("{}: {}", member.id.name, why);
  }
  if (planned) cancel_change(now);
  if (served) halt(fmt::format("node {} is lost: {}", member.id.name, why), now);
  if (!serving_ && !change_) want_plan(now);
}

Status Coordinator::remove_node(std::string_view name_or_key, TimePoint now) {
  Member* found = nullptr;
  for (auto& [key, member] : members_) {
    if (key != name_or_key && member.id.name != name_or_key) continue;
    if (found != nullptr)
      return {Errc::kInvalidArgument, fmt::format("two nodes are called '{}': use the key, one of {} and {}",
                                                  name_or_key, found->id.key, key)};
    found = &member;
  }
  if (found == nullptr) return {Errc::kNotFound, fmt::format("no node '{}' in this cluster", name_or_key)};
  if (found->id == config_.self)
    return {Errc::kInvalidArgument, "the coordinator's own node cannot be removed"};
  forbid(found->id.key);
  if (found->here()) {
    send(*found, Refuse{true, "this node was removed from the cluster"});
    lose(*found, NodeState::kRemoved, EventKind::kRemoved, "removed by the operator", now);
  } else {
    found->state = NodeState::kRemoved;
    note(now, EventKind::kRemoved, found->id.name, 0, "removed by the operator");
  }
  return {};
}

void Coordinator::forbid(const std::string& key) {
  if (!removed_.insert(key).second) return;
  const Removed message{config_.incarnation, {key}};
  for (const auto& [other, member] : members_)
    if (member.here() && other != key) send(member, message);
}

void Coordinator::process_ended(const std::string& name, const std::string& how,
                                const std::string& what_follows, bool for_good, TimePoint now) {
  if (for_good) ++nodes_given_up_;
  for (auto& [key, member] : members_)
    if (member.id.name == name) member.last_failure = how;
  last_failure_ = fmt::format("{}: {}", name, for_good ? fmt::format("{}; {}", how, what_follows) : how);
  note(now, for_good ? EventKind::kGivenUp : EventKind::kEnded, name, 0,
       fmt::format("{}; {}", how, what_follows));
}

// ---- Time ----

// The plan predicts the longest step; where steps take longer than that, what they took counts.
Duration Coordinator::stall_limit(const Member& member) const {
  Duration limit{};
  if (serving_)
    if (const StagePlacement* stage = serving_->placement.find(member.id))
      limit = std::max(stage->stall_after, std::min(kStallSteps * member.pulse.longest_step(), kStallMost));
  if (change_ && change_->waiting_for.contains(member.id.key)) limit = std::max(limit, config_.load_stall);
  return limit;
}

void Coordinator::check_health(TimePoint now) {
  for (auto& [key, member] : members_) {
    if (!member.here()) continue;
    const Verdict verdict = member.pulse.judge(config_.health, stall_limit(member), now);
    if (verdict == Verdict::kDead) {
      lose(member, NodeState::kDead, EventKind::kDead, member.pulse.words(now), now);
    } else if (verdict == Verdict::kSuspect && member.state == NodeState::kUp) {
      member.state = NodeState::kSuspect;
      note(now, EventKind::kSuspect, member.id.name, 0, member.pulse.words(now));
    } else if (verdict == Verdict::kUp && member.state == NodeState::kSuspect) {
      member.state = NodeState::kUp;
      note(now, EventKind::kRecovered, member.id.name, 0, "");
      if (!serving_ && !change_) want_plan(now);
    }
  }
}

// This process stood still (a stopped process, a suspended laptop): what others said in the meantime waits in
// the sockets, so no time has passed as far as they are concerned.
void Coordinator::forgive(Duration gap) {
  for (auto& [key, member] : members_) member.pulse.forgive(gap);
  for (auto& [link, open] : links_) open.opened_at += gap;
  if (change_) change_->began_at += gap;
  if (measuring_) measuring_->second += gap;
}

void Coordinator::tick(TimePoint now) {
  const Duration gap = now - std::exchange(ticked_at_, now);
  // Only what is beyond a late tick, so that a busy machine still finds its dead.
  if (const Duration late = gap - config_.health.suspect_after / 2; late > Duration{}) forgive(late);
  if (now - beat_at_ >= config_.beat_every) {
    beat_at_ = now;
    for (const auto& [key, member] : members_)
      if (member.here()) send(member, Alive{config_.incarnation, serving_epoch()});
  }
  check_links(now);
  check_health(now);
  check_survey(now);
  check_change(now);
}

}  // namespace butterfly::cluster
