// How a plan comes about: asked for, prepared while the old one runs, steps paused, loaded, started, served.
// Every phase has an end: a report from every node, a loss, or a deadline.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "cluster/member/coordinator.h"
#include "cluster/member/message_fields.h"

namespace butterfly::cluster {
namespace {

// Served for so long, a plan has proved itself: the next failure is a new one.
constexpr Duration kProved = std::chrono::seconds(10);
// A pair of nodes that failed so often, the last time not long ago, is avoided.
constexpr uint32_t kBroken = 2;

}  // namespace

std::string_view change_phase_name(ChangePhase phase) {
  switch (phase) {
    case ChangePhase::kPlanning:
      return "planning";
    case ChangePhase::kPreparing:
      return "preparing";
    case ChangePhase::kPausing:
      return "pausing";
    case ChangePhase::kLoading:
      return "loading";
    case ChangePhase::kStarting:
      return "starting";
  }
  return "unknown";
}

std::optional<ChangePhase> Coordinator::change_phase() const {
  return change_ ? std::optional(change_->phase) : std::nullopt;
}

const Placement* Coordinator::change_placement() const {
  return change_ && change_->phase != ChangePhase::kPlanning ? &change_->placement : nullptr;
}

std::string Coordinator::why_not_serving() const {
  if (connected()) return {};
  if (model_.id.empty()) return "no model is chosen";
  if (serving_)
    return fmt::format("connecting the stages of plan {}", plan_number(config_.incarnation, serving_->epoch));
  if (change_)
    return fmt::format("{} plan {}", change_phase_name(change_->phase),
                       plan_number(config_.incarnation, change_->epoch));
  if (!why_waiting_.empty()) return why_waiting_;
  return fmt::format("waiting for nodes, {} of {} are here", nodes_here(), nodes_wanted());
}

size_t Coordinator::nodes_wanted() const {
  return config_.nodes_wanted - std::min(config_.nodes_wanted, nodes_given_up_);
}

size_t Coordinator::nodes_here() const {
  return static_cast<size_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& row) { return row.second.here(); }));
}

// ---- When to plan ----

void Coordinator::set_model(ModelTask model, TimePoint now) {
  BF_CHECK(model.id.size() <= kNameBytesMax && model.name.size() <= kNameBytesMax &&
           model.settings.size() <= kSettingsBytesMax)
      << "[coordinator] a model's id, name or settings are too long";
  if (model == model_) return;
  model_ = std::move(model);
  model_at_ = now;
  attempts_ = 0;
  cancel_change(now);
  if (serving_) halt("another model is wanted", now);
  why_waiting_.clear();
  if (!model_.id.empty()) return want_plan(now);
  plan_at_.reset();
  ++last_epoch_;
  for (const auto& [key, member] : members_)
    if (member.here()) send(member, Release{config_.incarnation, last_epoch_});
}

void Coordinator::want_plan(TimePoint at) {
  if (model_.id.empty()) return;
  plan_at_ = plan_at_ ? std::min(*plan_at_, at) : at;
}

bool Coordinator::may_plan(TimePoint now) const {
  if (!plan_at_ || now < *plan_at_ || change_ || model_.id.empty()) return false;
  // What was lost is put right at once; what is new can wait until it is known.
  if (ever_served_ && !serving_) return true;
  if (!survey_done(now)) return false;
  // Only the first plan waits for nodes that may never come: one that died and came back is used without the
  // others.
  return ever_served_ || nodes_here() >= nodes_wanted() || now - model_at_ >= config_.nodes_wait;
}

bool Coordinator::may_use(const Member& member, bool with_held, TimePoint now) const {
  if (member.state != NodeState::kUp) return false;
  return now >= member.held_until || (with_held && !member.held_firmly);
}

PlanQuestion Coordinator::question(TimePoint now, bool with_held) const {
  PlanQuestion question;
  question.model = model_;
  question.coordinator = config_.self;
  for (const auto& [key, member] : members_) {
    if (!may_use(member, with_held, now)) continue;
    const uint64_t free = member.pulse.last().ram_free_bytes;
    question.nodes.push_back(
        {member.id, member.capabilities, free > 0 ? free : member.capabilities.ram_limit_bytes});
  }
  const auto asked = [&](const std::string& key) {
    return std::any_of(question.nodes.begin(), question.nodes.end(),
                       [&](const PlanNode& node) { return node.id.key == key; });
  };
  for (const auto& [pair, figures] : figures_)
    if (asked(pair.first) && asked(pair.second)) question.links.emplace(pair, figures);
  for (const PlanNode& a : question.nodes)
    for (const PlanNode& b : question.nodes)
      if (a.id.key < b.id.key && !question.links.contains({a.id.key, b.id.key}))
        if (const auto figures = estimate(a.id.key, b.id.key)) {
          question.links[{a.id.key, b.id.key}] = *figures;
          question.links[{b.id.key, a.id.key}] = *figures;
        }
  // Where nothing else fits, a pair that did not work is tried again after a while.
  for (const auto& [pair, failed] : broken_)
    if (is_broken(failed, now) && !(with_held && now - failed.last >= config_.hold_min))
      question.broken.push_back(pair);
  if (serving_) question.current = serving_->placement;
  return question;
}

bool Coordinator::is_broken(const BrokenPair& pair, TimePoint now) const {
  return (pair.unreachable || pair.times >= kBroken) && now - pair.last < config_.hold_max;
}

void Coordinator::begin_change(bool with_held, TimePoint now) {
  plan_at_.reset();
  PlanQuestion asked = question(now, with_held);
  asked.epoch = ++last_epoch_;
  Change change;
  change.epoch = last_epoch_;
  change.began_at = now;
  change.with_held = with_held;
  for (const PlanNode& node : asked.nodes) change.asked.insert(node.id.key);
  change_ = std::move(change);
  if (asked.nodes.empty()) return no_plan({Errc::kNotFound, "no node is up"}, now);
  ++counters_.plans;
  actions_.emplace_back(MakePlan{std::move(asked)});
}

Duration Coordinator::retry_delay() const {
  if (attempts_ <= 1) return Duration{};
  const uint32_t doublings = std::min(attempts_ - 2, 16u);
  return std::min(config_.retry_max, config_.retry_min * (int64_t{1} << doublings));
}

void Coordinator::no_plan(const Status& why, TimePoint now) {
  const Epoch epoch = change_->epoch;
  const bool tried_all = change_->with_held;
  change_.reset();
  const auto held = [&](const auto& row) {
    return may_use(row.second, true, now) && !may_use(row.second, false, now);
  };
  const auto may_be_mended = [&](const auto& row) {
    return is_broken(row.second, now) && now - row.second.last >= config_.hold_min;
  };
  if (!tried_all && (std::any_of(members_.begin(), members_.end(), held) ||
                     std::any_of(broken_.begin(), broken_.end(), may_be_mended)))
    return begin_change(true, now);
  if (serving_) return;  // what runs is as good as it gets
  if (why_waiting_ != why.text()) note(now, EventKind::kNoPlan, "", epoch, why.text());
  why_waiting_ = why.text();
  last_failure_ = why.text();
  ++attempts_;
  want_plan(now + std::max(retry_delay(), config_.retry_min));
}

void Coordinator::planned(Epoch epoch, Result<Placement> placement, TimePoint now) {
  if (!change_ || change_->epoch != epoch || change_->phase != ChangePhase::kPlanning) {
    ++counters_.old_epochs;
    return;
  }
  if (!placement.ok()) return no_plan(placement.status(), now);
  std::string problem = why_not_whole(*placement);
  for (const NodeId& node : placement->nodes())
    if (problem.empty() && !change_->asked.contains(node.key))
      problem = fmt::format("it uses node {}, which is not available", node.name);
  if (!problem.empty()) return no_plan({Errc::kInvalidArgument, "the plan is not usable: " + problem}, now);
  if (serving_) {
    // By today's figures, where the planner gives them: links may have been measured since.
    const double current = placement->current_tokens_per_s > 0 ? placement->current_tokens_per_s
                                                               : serving_->placement.tokens_per_s;
    const double gain = current > 0 ? placement->tokens_per_s / current : config_.gain_min;
    if (placement->current_tokens_per_s > 0)
      serving_->placement.tokens_per_s = placement->current_tokens_per_s;
    if (serving_->placement.same_work(*placement) || gain < config_.gain_min) {
      change_.reset();
      return;
    }
  }
  change_->placement = *std::move(placement);
  std::string words;
  for (const StagePlacement& stage : change_->placement.stages) {
    std::string names;
    for (const StageMember& member : stage.members) names += (names.empty() ? "" : "+") + member.node.name;
    words += fmt::format("{}{} {}-{}", words.empty() ? "" : ", ", names, stage.begin, stage.end);
  }
  note(now, EventKind::kPlanned, "", epoch, std::move(words));
  if (!serving_) return begin_loading(now);
  begin_phase(ChangePhase::kPreparing, now);
  for (const Assignment& work : assignments())
    send(members_.at(work.self().node.key), Prepare{config_.incarnation, work});
}

// ---- The phases ----

// One for every member of every stage.
std::vector<Assignment> Coordinator::assignments() const {
  std::vector<Assignment> all;
  for (size_t stage = 0; stage < change_->placement.stages.size(); ++stage)
    for (size_t member = 0; member < change_->placement.stages[stage].members.size(); ++member)
      all.push_back(assignment(stage, member));
  return all;
}

Assignment Coordinator::assignment(size_t stage, size_t member) const {
  const auto& stages = change_->placement.stages;
  Assignment work;
  work.epoch = change_->epoch;
  work.model = model_;
  work.begin = stages[stage].begin;
  work.end = stages[stage].end;
  work.pieces = change_->placement.pieces;
  work.stage = static_cast<uint32_t>(stage);
  work.stages = static_cast<uint32_t>(stages.size());
  work.member = static_cast<uint32_t>(member);
  for (const StageMember& row : stages[stage].members)
    work.members.push_back({row.node, members_.at(row.node.key).address, row.share});
  work.previous = stage == 0 ? config_.self : stages[stage - 1].first();
  work.next = stage + 1 == stages.size() ? config_.self : stages[stage + 1].first();
  work.next_address = stage + 1 == stages.size() ? config_.address : members_.at(work.next.key).address;
  work.sources.push_back({config_.self, config_.address});
  for (const auto& [key, other] : members_)
    if (work.sources.size() < kSourcesMax && other.here() && !other.address.empty() &&
        key != config_.self.key && key != work.self().node.key)
      work.sources.push_back({other.id, other.address});
  return work;
}

// Every stage's node has something to report.
void Coordinator::begin_phase(ChangePhase phase, TimePoint now) {
  change_->phase = phase;
  change_->began_at = now;
  change_->waiting_for.clear();
  if (phase == ChangePhase::kPausing) return;
  for (const NodeId& node : change_->placement.nodes()) {
    change_->waiting_for.insert(node.key);
    members_.at(node.key).pulse.expect_progress(now);
  }
}

void Coordinator::steps_paused(Epoch next, TimePoint now) {
  if (!change_ || change_->epoch != next || change_->phase != ChangePhase::kPausing) {
    ++counters_.old_epochs;
    return;
  }
  begin_loading(now);
}

void Coordinator::begin_loading(TimePoint now) {
  if (serving_) actions_.emplace_back(HaltSteps{serving_->epoch, "a new plan takes its place"});
  serving_.reset();
  begin_phase(ChangePhase::kLoading, now);
  for (const auto& [key, member] : members_)
    if (member.here() && change_->placement.find(member.id) == nullptr)
      send(member, Release{config_.incarnation, change_->epoch});
  for (const Assignment& work : assignments())
    send(members_.at(work.self().node.key), Assign{config_.incarnation, work});
}

void Coordinator::begin_starting(TimePoint now) {
  begin_phase(ChangePhase::kStarting, now);
  // From the back, so that who links to the next stage is likely to find it started.
  const std::vector<NodeId> nodes = change_->placement.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    send(members_.at(node->key), Go{config_.incarnation, change_->epoch});
}

void Coordinator::serve(TimePoint now) {
  serving_ = Serving{change_->epoch, std::move(change_->placement), now, false};
  change_.reset();
  ever_served_ = true;
  why_waiting_.clear();
  ServeSteps action{serving_->epoch, serving_->placement, {}};
  for (const StagePlacement& stage : serving_->placement.stages)
    action.addresses.push_back(members_.at(stage.first().key).address);
  actions_.emplace_back(std::move(action));
}

void Coordinator::steps_connected(Epoch epoch, TimePoint now) {
  if (!serving_ || serving_->epoch != epoch || serving_->connected) {
    ++counters_.old_epochs;
    return;
  }
  serving_->connected = true;
  serving_->since = now;
  note(now, EventKind::kServing, "", epoch,
       fmt::format("{} on {} node{}", model_.name, serving_->placement.stages.size(),
                   serving_->placement.stages.size() == 1 ? "" : "s"));
  survey_chain(serving_->placement, now);
}

void Coordinator::reported(Member& member, Epoch epoch, ChangePhase phase, Errc code, const std::string& text,
                           TimePoint now) {
  if (!change_ || change_->epoch != epoch || change_->phase != phase) {
    ++counters_.old_epochs;
    return;
  }
  if (change_->waiting_for.erase(member.id.key) == 0) return;
  if (code != Errc::kOk) {
    const std::string why = fmt::format("it could not load: {}", text);
    note(now, EventKind::kLoadFailed, member.id.name, epoch, text);
    last_failure_ = fmt::format("{}: {}", member.id.name, why);
    hold(member, true, why, now);
    cancel_change(now);
    ++attempts_;
    return want_plan(now + retry_delay());
  }
  if (!change_->waiting_for.empty()) return;
  if (phase == ChangePhase::kPreparing) {
    begin_phase(ChangePhase::kPausing, now);
    actions_.emplace_back(PauseSteps{serving_->epoch, change_->epoch});
  } else if (phase == ChangePhase::kLoading) {
    begin_starting(now);
  } else {
    serve(now);
  }
}

// ---- When things go wrong ----

void Coordinator::cancel_change(TimePoint) {
  if (!change_) return;
  const bool paused = change_->phase == ChangePhase::kPausing;
  // Who still fetches or loads for it would count as working, and then as stuck.
  if (change_->phase != ChangePhase::kPlanning)
    for (const NodeId& node : change_->placement.nodes())
      if (const auto member = members_.find(node.key); member != members_.end())
        send(member->second, Abandon{config_.incarnation, change_->epoch});
  change_.reset();
  if (!paused || !serving_) return;
  // No node has dropped its stage yet: the steps go on as before.
  ServeSteps action{serving_->epoch, serving_->placement, {}};
  for (const StagePlacement& stage : serving_->placement.stages)
    action.addresses.push_back(members_.at(stage.first().key).address);
  actions_.emplace_back(std::move(action));
}

void Coordinator::halt(const std::string& why, TimePoint now) {
  ++counters_.halts;
  attempts_ = now - serving_->since >= kProved ? 0 : attempts_ + 1;
  actions_.emplace_back(HaltSteps{serving_->epoch, why});
  note(now, EventKind::kHalted, "", serving_->epoch, why);
  last_failure_ = why;
  why_waiting_ = why;
  serving_.reset();
  // A change on its way does not need what was lost, else it would have been given up: it goes on, and
  // nothing has to be paused any more.
  if (change_ && (change_->phase == ChangePhase::kPreparing || change_->phase == ChangePhase::kPausing))
    begin_loading(now);
}

void Coordinator::hold(Member& member, bool firmly, const std::string& why, TimePoint now) {
  if (now - member.failed_at > config_.hold_max) member.failures = 0;
  member.failed_at = now;
  member.last_failure = why;
  const uint32_t doublings = std::min(member.failures++, 16u);
  member.held_until = now + std::min(config_.hold_max, config_.hold_min * (int64_t{1} << doublings));
  member.held_firmly = firmly;
}

void Coordinator::note_broken(const NodeId& from, const NodeId& to, bool unreachable, TimePoint now) {
  if (broken_.size() >= kNodesMax * kNodesMax) return;
  BrokenPair& pair = broken_[{from.key, to.key}];
  if (now - pair.last >= config_.hold_max) pair = {};
  ++pair.times;
  pair.unreachable = pair.unreachable || unreachable;
  pair.last = now;
}

void Coordinator::give_up_change(const std::string& why, const std::string& node, TimePoint now) {
  note(now, EventKind::kLoadFailed, node, change_->epoch, why);
  last_failure_ = why;
  cancel_change(now);
  ++attempts_;
}

// Trouble with one neighbour is the pair's; with several it is its own.
void Coordinator::blame(const NodeId& reporter, const NodeId& peer, TimePoint now) {
  const auto found = members_.find(reporter.key);
  if (found == members_.end() || reporter == config_.self) return;
  auto& troubles = found->second.troubles;
  std::erase_if(troubles, [&](const auto& row) { return now - row.second >= config_.hold_max; });
  troubles[peer.key] = now;
  if (troubles.size() < config_.troubles_max) return;
  hold(found->second, true, fmt::format("it had trouble with {} neighbours", troubles.size()), now);
  troubles.clear();
}

void Coordinator::trouble(Epoch epoch, const NodeId& reporter, const NodeId& peer, const std::string& why,
                          TimePoint now) {
  const bool served = serving_ && serving_->epoch == epoch;
  const bool starting = change_ && change_->epoch == epoch && change_->phase == ChangePhase::kStarting;
  if (!served && !starting) {
    ++counters_.old_epochs;
    return;
  }
  // Only who has a part in the plan can say that it does not work, and only of its neighbours; else any
  // member could halt what others do.
  const Placement& placement = served ? serving_->placement : change_->placement;
  if (!are_neighbours(placement, config_.self, reporter, peer)) {
    ++counters_.unfounded;
    return;
  }
  note_broken(reporter, peer, starting, now);
  blame(reporter, peer, now);
  const std::string text = fmt::format("{} has trouble with {}: {}", reporter.name,
                                       peer.name.empty() ? "the chain" : peer.name, why);
  if (served) {
    halt(text, now);
  } else {
    give_up_change(text, reporter.name, now);
  }
  // The loss of a node is often seen first by its neighbours.
  if (!change_) want_plan(now + std::max(config_.trouble_wait, retry_delay()));
}

void Coordinator::steps_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint now) {
  trouble(epoch, config_.self, peer, std::string(why), now);
}

void Coordinator::check_change(TimePoint now) {
  if (change_) {
    const Duration waited = now - change_->began_at;
    const std::set<std::string> late = change_->waiting_for;
    const auto give_up = [&](const char* what) {
      for (const std::string& key : late) hold(members_.at(key), true, what, now);
      last_failure_ = what;
      note(now, EventKind::kLoadFailed, late.empty() ? "" : members_.at(*late.begin()).id.name,
           change_->epoch, what);
      cancel_change(now);
      ++attempts_;
      want_plan(now + retry_delay());
    };
    switch (change_->phase) {
      case ChangePhase::kPlanning:
        if (waited >= config_.plan_wait) no_plan({Errc::kTimeout, "planning took too long"}, now);
        break;
      case ChangePhase::kPausing:
        // A step that does not end is of an epoch that is over anyway.
        if (waited >= config_.pause_wait) begin_loading(now);
        break;
      case ChangePhase::kPreparing:
      case ChangePhase::kLoading:
        if (waited >= config_.load_wait) give_up("it took too long to load");
        break;
      case ChangePhase::kStarting:
        if (waited >= config_.start_wait) give_up("it did not start");
        break;
    }
  }
  // Who was left out for a while may be tried again.
  for (auto& [key, member] : members_) {
    if (member.held_until == TimePoint{} || now < member.held_until || !member.here()) continue;
    member.held_until = {};
    member.held_firmly = false;
    want_plan(now);
  }
  if (may_plan(now)) begin_change(false, now);
}

}  // namespace butterfly::cluster
