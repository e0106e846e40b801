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

bool positive(const ThreadedRate& rate) { return rate.one > 0 && rate.all > 0; }

// Smaller numbers go before larger ones. A training run gives its memory to a model at once; what is served
// is left alone as long as the one that asks may find a place without it.
bool gives_way(JobId job, JobId asking, bool claims) {
  return asking < job && (claims || (is_training(job) && !is_training(asking)));
}

}  // namespace

Coordinator::Coordinator(CoordinatorConfig config, TimePoint now)
    : started_at_(now), cluster_(std::move(config), now), beat_at_(now), ticked_at_(now) {
  BF_CHECK(within_bounds(cluster_.config().self))
      << "[coordinator] the key or name of its own node is too long";
  BF_CHECK(cluster_.config().address.size() <= kAddressBytesMax)
      << "[coordinator] address " << cluster_.config().address;
}

Member* Coordinator::member_of(LinkNumber link) {
  const auto open = links_.find(link);
  if (open == links_.end() || !open->second.joined) return nullptr;
  const auto member = cluster_.members().find(open->second.peer.key);
  return member != cluster_.members().end() && member->second.link == link ? &member->second : nullptr;
}

const Job* Coordinator::job(JobId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

// ---- Links ----

void Coordinator::link_opened(LinkNumber link, const NodeId& peer, TimePoint now) {
  if (links_.size() >= config().links_max || !within_bounds(peer)) {
    ++cluster_.counters().refused;
    cluster_.act(CloseLink{link, links_.size() >= config().links_max ? "too many links" : "its name"});
    return;
  }
  links_[link] = {peer, now, false};
  if (removed_.contains(peer.key)) refuse(link, "this node was removed from the cluster", true, now);
}

void Coordinator::close(LinkNumber link, std::string why) {
  if (links_.erase(link) > 0) cluster_.act(CloseLink{link, std::move(why)});
}

void Coordinator::link_closed(LinkNumber link, std::string_view why, TimePoint now) {
  Member* member = member_of(link);
  if (links_.erase(link) == 0 || member == nullptr) return;
  lose(*member, NodeState::kDead, EventKind::kDead, fmt::format("its link closed: {}", why), now);
  member->cut_off = true;
}

void Coordinator::received(LinkNumber link, const ToCoordinator& message, TimePoint now) {
  const auto open = links_.find(link);
  if (open == links_.end()) {
    ++cluster_.counters().unknown_links;
    return;
  }
  if (!open->second.joined) {
    if (const Join* first = std::get_if<Join>(&message)) return join(link, *first, now);
    ++cluster_.counters().unexpected;
    close(link, fmt::format("'{}' before 'join'", name_of(message)));
    return;
  }
  Member* member = member_of(link);
  if (member == nullptr) {
    ++cluster_.counters().unknown_links;
    return;
  }
  std::visit([&](const auto& m) { handle(*member, m, now); }, message);
}

void Coordinator::received_garbage(LinkNumber link, std::string_view why, TimePoint now) {
  Member* member = member_of(link);
  ++cluster_.counters().unexpected;
  close(link, std::string(why));
  if (member != nullptr)
    lose(*member, NodeState::kDead, EventKind::kDead, fmt::format("it broke the protocol: {}", why), now);
}

void Coordinator::check_links(TimePoint now) {
  std::vector<LinkNumber> late;
  for (const auto& [link, open] : links_)
    if (!open.joined && now - open.opened_at >= config().join_wait) late.push_back(link);
  for (const LinkNumber link : late) close(link, "no 'join' came");
}

// ---- Joining ----

void Coordinator::refuse(LinkNumber link, std::string text, bool forever, TimePoint now) {
  const auto open = links_.find(link);
  if (open == links_.end()) return;
  node_refused(open->second.peer, text, now);
  cluster_.act(SendToWorker{link, Refuse{forever, shorten(text)}});
  close(link, std::move(text));
}

// One that comes again and again is one event.
void Coordinator::node_refused(const NodeId& peer, const std::string& why, TimePoint now) {
  ++cluster_.counters().refused;
  if (!within_bounds(peer)) return;
  if (!refused_.contains(peer.key) && refused_.size() >= config().refused_max)
    refused_.erase(std::ranges::min_element(refused_, {}, [](const auto& row) { return row.second.last; }));
  RefusedNode& row = refused_[peer.key];
  if (row.why != why) cluster_.note(now, EventKind::kRefused, peer.name, 0, why);
  row = {peer, why, row.times + 1, now};
}

Coordinator::Refusal Coordinator::why_refuse(const NodeId& peer, const Join& message, TimePoint now) {
  const Capabilities& c = message.capabilities;
  if (removed_.contains(peer.key)) return {"this node was removed from the cluster", true};
  if (message.protocol != kMemberProtocol)
    return {fmt::format("it speaks version {} of the protocol, this cluster speaks {}: install the same "
                        "program on both",
                        message.protocol, kMemberProtocol),
            true};
  if (c.numerics_id != config().numerics_id)
    return {fmt::format("its numerics id is {}, this cluster's is {}: results would differ; install the same "
                        "program on both",
                        c.numerics_id, config().numerics_id),
            true};
  if (c.threads == 0 || !positive(c.memory) || !positive(c.f32) || !positive(c.int8))
    return {"its capabilities are not measured", true};
  const auto known = cluster_.members().find(peer.key);
  if (known == cluster_.members().end()) {
    if (cluster_.members().size() >= kNodesMax && !make_room())
      return {fmt::format("the cluster is full: {} nodes", kNodesMax), false};
    return {};
  }
  const Member& member = known->second;
  // A half-open link of the same process, or of the one before it, is silent. A second machine with a copied
  // key is not the same node: the one that is here stays.
  if (member.here() && member.instance != message.instance &&
      now - member.pulse.heard_at() < config().health.suspect_after) {
    ++cluster_.counters().duplicate_ids;
    return {fmt::format("a node with this identity ('{}') is here already; a copied state folder needs its "
                        "own 'butterfly join'",
                        member.id.name),
            false};
  }
  return {};
}

// Forgets one that is away: rather one that left or was removed than one that may come back, and of those
// the one that was last heard of longest ago.
bool Coordinator::make_room() {
  auto& members = cluster_.members();
  const auto rank = [](const Member& member) {
    return std::pair(member.state == NodeState::kDead, member.pulse.heard_at());
  };
  auto oldest = members.end();
  for (auto it = members.begin(); it != members.end(); ++it)
    if (!it->second.here() && (oldest == members.end() || rank(it->second) < rank(oldest->second)))
      oldest = it;
  if (oldest == cluster_.members().end()) return false;
  cluster_.forget_links(oldest->first);
  cluster_.members().erase(oldest);
  return true;
}

void Coordinator::join(LinkNumber link, const Join& message, TimePoint now) {
  const NodeId peer = links_.at(link).peer;
  if (Refusal refusal = why_refuse(peer, message, now); !refusal.text.empty())
    return refuse(link, std::move(refusal.text), refusal.forever, now);
  const auto known = cluster_.members().find(peer.key);
  const bool returned = known != cluster_.members().end();
  cluster_.arrives_at(peer.key, message.address);
  if (returned && known->second.here())
    lose(known->second, NodeState::kDead, EventKind::kDead, "it came back over a new link", now);
  links_.at(link).joined = true;
  refused_.erase(peer.key);
  Member& member = cluster_.members()[peer.key];
  // Its process went on: a cable, a damaged frame. Links that break again and again are waited for longer
  // each time, as all that fails.
  if (std::exchange(member.cut_off, false) && member.instance == message.instance && now < member.hold.until)
    member.hold.shorten();
  if (returned && member.instance != message.instance)
    for (auto& [id, job] : jobs_) job.node_started(peer);
  member.id = peer;
  member.state = NodeState::kUp;
  member.link = link;
  member.instance = message.instance;
  member.address = message.address;
  member.capabilities = message.capabilities;
  member.pulse = Pulse(now);
  member.joined_at = now;
  member.drain = Member::Drain::kNo;
  member.retires = false;
  member.why_not_drained.clear();
  member.slowness = 1;
  member.was_held_up = false;
  const auto here_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - started_at_).count();
  if (config().unix_ms != 0 && message.unix_ms != 0)
    member.clock_ahead_s = (static_cast<double>(message.unix_ms) - static_cast<double>(config().unix_ms) -
                            static_cast<double>(here_ms)) /
                           1000;
  cluster_.forget_troubles(peer.key);
  cluster_.note(now, returned ? EventKind::kReturned : EventKind::kJoined, peer.name, 0,
                fmt::format("{}, {} thread{}, {}", member.capabilities.cpu, member.capabilities.threads,
                            member.capabilities.threads == 1 ? "" : "s",
                            format_bytes(member.capabilities.ram_limit_bytes)));
  Welcome welcome{config().incarnation, config().beat_every, config().health.dead_after, {}};
  for (const std::string& key : removed_)
    if (welcome.removed.size() < kRemovedMax) welcome.removed.push_back(key);
  cluster_.send(member, std::move(welcome));
  if (!leaders_.seats.empty()) cluster_.send(member, leaders_);
  cluster_.survey(member, now);
  want_plans(now + config().settle);
}

// ---- What members say ----

void Coordinator::handle(Member& member, const Join&, TimePoint now) {
  received_garbage(member.link, "a second 'join'", now);
}

void Coordinator::handle(Member& member, const Beat& message, TimePoint now) {
  const double passed = std::chrono::duration<double>(now - member.pulse.heard_at()).count();
  uint64_t rows = 0, compute_us = 0;
  uint32_t pending = 0;
  bool counts = passed > 0 && !message.jobs.empty();
  for (const JobBeat& job : message.jobs) {
    const JobBeat& before = member.pulse.last(job.job);
    counts =
        counts && job.epoch == before.epoch && job.rows >= before.rows && job.compute_us >= before.compute_us;
    if (counts) rows += job.rows - before.rows;
    if (counts) compute_us += job.compute_us - before.compute_us;
    pending += std::min(job.pending, 1u);
  }
  const double weight = std::min(1.0, passed / 2);  // an average over some two seconds
  const auto average = [&](double& value, double now_is) {
    value = counts ? value + weight * (now_is - value) : 0;
  };
  average(member.rows_per_s, static_cast<double>(rows) / passed);
  average(member.busy, std::min(1.0, static_cast<double>(compute_us) / 1e6 / passed));
  member.pulse.beat(message, now);
  if (message.machine.held_up_s > 0) {
    member.was_held_up = true;
    member.slowness_at = now;
  }
  member.load.add({.at = now,
                   .busy = member.busy,
                   .machine_busy = message.machine.busy,
                   .rows_per_s = member.rows_per_s,
                   .pending = static_cast<double>(pending),
                   .ram_free_bytes = message.ram_free_bytes});
}

Job* Coordinator::job_at(JobId id, Epoch epoch) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second.has_epoch(epoch)) return &found->second;
  ++cluster_.counters().old_epochs;
  return nullptr;
}

Job* Coordinator::job_at(Epoch epoch) {
  for (auto& [id, job] : jobs_)
    if (job.has_epoch(epoch)) return &job;
  ++cluster_.counters().old_epochs;
  return nullptr;
}

void Coordinator::handle(Member& member, const Prepared& message, TimePoint now) {
  if (Job* job = job_at(message.job, message.epoch)) job->prepared(member, message, now);
}

void Coordinator::handle(Member& member, const Ready& message, TimePoint now) {
  if (Job* job = job_at(message.job, message.epoch)) job->ready(member, message, now);
}

void Coordinator::handle(Member& member, const Started& message, TimePoint now) {
  if (Job* job = job_at(message.job, message.epoch)) job->started(member, message, now);
}

void Coordinator::handle(Member& member, const Trouble& message, TimePoint now) {
  if (Job* job = job_at(message.job, message.epoch))
    job->trouble(message.epoch, member.id, message.peer, message.text, now);
}

void Coordinator::handle(Member& member, const LinkReport& message, TimePoint now) {
  // Plans that were made without these figures may be improved.
  if (cluster_.link_report(member, message, now)) want_plans(now + config().settle);
}

void Coordinator::handle(Member& member, const Leave& message, TimePoint now) {
  lose(member, NodeState::kLeft, EventKind::kLeft, message.text.empty() ? "it left" : message.text, now);
}

void Coordinator::handle(Member& member, const Retire& message, TimePoint now) {
  member.retires = true;
  begin_drain(member, message.text.empty() ? "it is about to end" : message.text, now);
}

// ---- Leaving ----

Result<Member*> Coordinator::find_one(std::string_view name_or_key) {
  Member* found = nullptr;
  for (auto& [key, member] : cluster_.members()) {
    if (key != name_or_key && member.id.name != name_or_key) continue;
    if (found != nullptr)
      return {Errc::kInvalidArgument, fmt::format("two nodes are called '{}': use the key, one of {} and {}",
                                                  name_or_key, found->id.key, key)};
    found = &member;
  }
  if (found == nullptr) return {Errc::kNotFound, fmt::format("no node '{}' in this cluster", name_or_key)};
  return found;
}

Status Coordinator::drain_node(std::string_view name_or_key, TimePoint now) {
  const auto found = find_one(name_or_key);
  if (!found) return found.status();
  if ((*found)->id == config().self)
    return {Errc::kInvalidArgument,
            "the coordinator's own node cannot be drained: the end of every chain is there"};
  if (!(*found)->here()) return {Errc::kNotFound, fmt::format("node '{}' is not here", name_or_key)};
  begin_drain(**found, "by the operator", now);
  return {};
}

Status Coordinator::resume_node(std::string_view name_or_key, TimePoint now) {
  const auto found = find_one(name_or_key);
  if (!found) return found.status();
  if ((*found)->drain == Member::Drain::kNo) return {};
  (*found)->drain = Member::Drain::kNo;
  (*found)->why_not_drained.clear();
  want_plans(now);
  return {};
}

void Coordinator::begin_drain(Member& member, const std::string& why, TimePoint now) {
  if (member.drain == Member::Drain::kNo) cluster_.note(now, EventKind::kDraining, member.id.name, 0, why);
  member.drain = Member::Drain::kMoving;
  member.why_not_drained.clear();
  for (auto& [id, job] : jobs_)
    if (job.has_part(member.id)) job.move_away(now);
}

// Who has no part any more is done. Where nothing fits without it, it keeps its part, and whoever wants it
// away hears why.
void Coordinator::check_drains(TimePoint now) {
  for (auto& [key, member] : cluster_.members()) {
    if (member.drain == Member::Drain::kNo || !member.here()) continue;
    std::string why;
    bool has_part = false;
    for (const auto& [id, job] : jobs_) {
      if (!job.has_part(member.id)) continue;
      has_part = true;
      if (why.empty()) why = job.why_no_other_plan();
    }
    const auto tell = [&, &member = member](const std::string& text) {
      if (member.retires) cluster_.send(member, Retired{config().incarnation, shorten(text)});
    };
    if (has_part) {
      member.drain = Member::Drain::kMoving;
      if (!why.empty() && why != member.why_not_drained) tell(why);
      member.why_not_drained = why;
    } else if (member.drain == Member::Drain::kMoving) {
      member.drain = Member::Drain::kDone;
      member.why_not_drained.clear();
      cluster_.note(now, EventKind::kDrained, member.id.name, 0, "");
      tell("");
    }
  }
}

void Coordinator::lose(Member& member, NodeState state, EventKind kind, const std::string& why,
                       TimePoint now) {
  if (!member.here()) return;
  const LinkNumber link = std::exchange(member.link, LinkNumber{0});
  member.state = state;
  member.cut_off = false;
  close(link, why);
  cluster_.stop_survey(member.id);
  Epoch epoch = 0;  // of what it had a part in
  for (const auto& [id, job] : jobs_)
    if (epoch == 0 && job.serving_placement() != nullptr &&
        job.serving_placement()->find(member.id) != nullptr)
      epoch = job.serving_epoch();
  cluster_.note(now, kind, member.id.name, epoch, why);
  const bool dead = state == NodeState::kDead;
  if (dead) cluster_.hold(member, false, why, now);
  for (auto& [id, job] : jobs_) job.node_lost(member, dead, why, now);
}

Status Coordinator::remove_node(std::string_view name_or_key, TimePoint now) {
  const auto one = find_one(name_or_key);
  if (!one) return one.status();
  Member* const found = *one;
  if (found->id == config().self)
    return {Errc::kInvalidArgument, "the coordinator's own node cannot be removed"};
  forbid(found->id.key);
  if (found->here()) {
    cluster_.send(*found, Refuse{true, "this node was removed from the cluster"});
    lose(*found, NodeState::kRemoved, EventKind::kRemoved, "removed by the operator", now);
  } else {
    found->state = NodeState::kRemoved;
    cluster_.note(now, EventKind::kRemoved, found->id.name, 0, "removed by the operator");
  }
  return {};
}

void Coordinator::forbid(const std::string& key) {
  if (!removed_.insert(key).second) return;
  const Removed message{config().incarnation, {key}};
  for (const auto& [other, member] : cluster_.members())
    if (member.here() && other != key) cluster_.send(member, message);
}

void Coordinator::set_leaders(Leaders leaders) {
  leaders.incarnation = config().incarnation;
  if (leaders == leaders_) return;
  leaders_ = std::move(leaders);
  for (const auto& [key, member] : cluster_.members())
    if (member.here()) cluster_.send(member, leaders_);
}

void Coordinator::process_ended(const std::string& name, const std::string& how,
                                const std::string& what_follows, bool for_good, TimePoint now) {
  if (for_good) cluster_.give_up_node();
  for (auto& [key, member] : cluster_.members())
    if (member.id.name == name) member.last_failure = how;
  for (auto& [id, job] : jobs_)
    job.set_last_failure(
        fmt::format("{}: {}", name, for_good ? fmt::format("{}; {}", how, what_follows) : how));
  cluster_.note(now, for_good ? EventKind::kGivenUp : EventKind::kEnded, name, 0,
                fmt::format("{}; {}", how, what_follows));
}

// ---- Time ----

// Stages of one node compute in turns: each may have to wait for a step of every other.
Duration Coordinator::stall_limit(const Member& member) const {
  Duration limit{};
  for (const auto& [id, job] : jobs_) limit += job.stall_limit(member);
  return limit;
}

void Coordinator::check_health(TimePoint now) {
  for (auto& [key, member] : cluster_.members()) {
    if (!member.here()) continue;
    const Verdict verdict = member.pulse.judge(config().health, stall_limit(member), now);
    if (verdict == Verdict::kDead) {
      lose(member, NodeState::kDead, EventKind::kDead, member.pulse.words(now), now);
    } else if (verdict == Verdict::kSuspect && member.state == NodeState::kUp) {
      member.state = NodeState::kSuspect;
      cluster_.note(now, EventKind::kSuspect, member.id.name, 0, member.pulse.words(now));
    } else if (verdict == Verdict::kUp && member.state == NodeState::kSuspect) {
      member.state = NodeState::kUp;
      cluster_.note(now, EventKind::kRecovered, member.id.name, 0, "");
      for (auto& [id, job] : jobs_)
        if (job.serving_epoch() == 0 && !job.change_phase()) job.want_plan(now);
    }
  }
}

// This process stood still (a stopped process, a suspended laptop): what others said in the meantime waits in
// the sockets, so no time has passed as far as they are concerned.
void Coordinator::forgive(Duration gap) {
  cluster_.forgive(gap);
  for (auto& [link, open] : links_) open.opened_at += gap;
  for (auto& [id, job] : jobs_) job.forgive(gap);
}

// ---- Jobs ----

void Coordinator::set_job(JobId id, ModelTask model, TimePoint now) {
  BF_CHECK(id >= kFirstJob && id <= kJobsMax) << "[coordinator] job " << id;
  const auto found = jobs_.find(id);
  if (model.id.empty()) {
    if (found == jobs_.end()) return;
    found->second.end(now);
    jobs_.erase(found);
    return want_plans(now);  // others may use what it had
  }
  if (found != jobs_.end()) return found->second.set_model(std::move(model), now);
  OtherJobs& others = *this;
  jobs_.try_emplace(id, id, std::move(model), cluster_, others, now);
}

void Coordinator::planned(Epoch epoch, Result<Placement> placement, TimePoint now) {
  if (Job* job = job_at(epoch)) job->planned(epoch, std::move(placement), now);
}

void Coordinator::steps_paused(Epoch next, TimePoint now) {
  if (Job* job = job_at(next)) job->steps_paused(next, now);
}

void Coordinator::steps_connected(Epoch epoch, TimePoint now) {
  if (Job* job = job_at(epoch)) job->steps_connected(epoch, now);
}

void Coordinator::steps_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint now) {
  if (Job* job = job_at(epoch)) job->trouble(epoch, config().self, peer, std::string(why), now);
}

uint64_t Coordinator::reserved_bytes(JobId asking, bool claims, const NodeId& node) const {
  uint64_t bytes = 0;
  for (const auto& [id, job] : jobs_)
    if (id != asking && !gives_way(id, asking, claims)) bytes += job.reserved_bytes(node);
  return bytes;
}

bool Coordinator::make_room(JobId asking, bool claims, const Placement& placement, TimePoint now) {
  const auto too_much = [&](const NodeId& node) {
    const Member* member = cluster_.find(node);
    uint64_t bytes = placement.find_member(node)->memory_bytes;
    for (const auto& [id, job] : jobs_)
      if (id != asking) bytes += job.reserved_bytes(node);
    return member != nullptr && bytes > member->usable_bytes();
  };
  bool made = false;
  // The last one first: it may be enough.
  for (auto row = jobs_.rbegin(); row != jobs_.rend(); ++row) {
    auto& [id, job] = *row;
    if (id == asking || !gives_way(id, asking, claims)) continue;
    const bool in_the_way = std::ranges::any_of(placement.nodes(), [&, &job = job](const NodeId& node) {
      return job.reserved_bytes(node) > 0 && too_much(node);
    });
    if (!in_the_way) continue;
    job.give_way(fmt::format("job {} needs its memory", asking), now);
    made = true;
  }
  return made;
}

std::vector<JobId> Coordinator::without_part(JobId asking, const NodeId& node) const {
  std::vector<JobId> found;
  for (const auto& [id, job] : jobs_)
    if (id != asking && !job.has_part(node)) found.push_back(id);
  return found;
}

void Coordinator::set_slowness(JobId id, const std::map<std::string, double>& slowness,
                               const std::string& why, TimePoint now) {
  constexpr double kSlownessMost = 1000;
  for (const auto& [key, value] : slowness) {
    const auto found = cluster_.members().find(key);
    if (found == cluster_.members().end() || !(value > 0)) continue;
    Member& member = found->second;
    member.slowness = std::clamp(value, 1 / kSlownessMost, kSlownessMost);
    member.slowness_at = now;
  }
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  cluster_.note(now, EventKind::kRebalancing, "", job->second.serving_epoch(), why);
  job->second.want_plan(now);
}

void Coordinator::check_slowness(TimePoint now) {
  for (auto& [key, member] : cluster_.members()) {
    if ((member.slowness == 1 && !member.was_held_up) || now - member.slowness_at < config().slowness_age)
      continue;
    const bool works = std::ranges::any_of(
        jobs_, [&member = member](const auto& row) { return row.second.has_part(member.id); });
    if (works) continue;
    member.slowness = 1;
    member.was_held_up = false;
    if (member.here()) want_plans(now);
  }
}

void Coordinator::want_plans(TimePoint at) {
  for (auto& [id, job] : jobs_) job.want_plan(at);
}

void Coordinator::check_jobs(TimePoint now) {
  for (auto& [id, job] : jobs_) job.tick(now);
  // Who was left out for a while may be tried again.
  for (auto& [key, member] : cluster_.members())
    if (member.here() && member.hold.ends(now)) want_plans(now);
  if (cluster_.has_rested(now)) want_plans(now);
  // One plans at a time, since the next one has to know what this one takes; what is not served goes before
  // what could be served better, also when that is being planned already.
  Job* planning = nullptr;
  for (auto& [id, job] : jobs_)
    if (job.change_phase() == ChangePhase::kPlanning) planning = &job;
  for (auto& [id, job] : jobs_) {
    if (job.serving_epoch() != 0 || !job.may_plan(now)) continue;
    const bool goes_before = planning != nullptr && !is_training(id) && is_training(planning->id());
    if (planning != nullptr && planning->serving_epoch() == 0 && !goes_before) return;
    if (planning != nullptr) planning->postpone_planning(now);
    return job.begin_change(false, now);
  }
  for (auto& [id, job] : jobs_)
    if (planning == nullptr && job.may_plan(now)) return job.begin_change(false, now);
}

void Coordinator::tick(TimePoint now) {
  const Duration gap = now - std::exchange(ticked_at_, now);
  // Only what is beyond a late tick, so that a busy machine still finds its dead.
  if (const Duration late = gap - config().health.suspect_after / 2; late > Duration{}) forgive(late);
  if (now - beat_at_ >= config().beat_every) {
    beat_at_ = now;
    for (const auto& [key, member] : cluster_.members())
      if (member.here()) cluster_.send(member, Alive{config().incarnation});
  }
  check_links(now);
  check_health(now);
  cluster_.check_survey(now);
  check_jobs(now);
  check_drains(now);
  check_slowness(now);
}

}  // namespace butterfly::cluster
