#include "cluster/member/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "cluster/member/message_fields.h"

namespace butterfly::cluster {
namespace {

// Served for so long, a plan has proved itself, and the next failure is a new one: twice as long as it would
// be waited for, within these bounds. What breaks as soon as it runs is tried less and less often; but a link
// that breaks every second must not make everybody wait for seconds each time.
constexpr Duration kProvedMin = std::chrono::milliseconds(500), kProvedMax = std::chrono::seconds(1);
// A step that takes this many times the longest one before it stands still; but nothing may take for ever.
constexpr int kStallSteps = 6;
// After so many attempts without a plan a job takes the memory of later ones, and if that did not help, after
// twice as many. Most that goes wrong is over before that: nothing is halted for it.
constexpr uint32_t kClaimAfter = 5;
constexpr uint32_t kClaimDoublings = 4;

void check_task(const ModelTask& model) {
  BF_CHECK(!model.id.empty() && model.id.size() <= kNameBytesMax && model.name.size() <= kNameBytesMax &&
           model.settings.size() <= kSettingsBytesMax)
      << "[job] a model's id is empty, or its id, name or settings are too long";
}

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

Job::Job(JobId id, ModelTask model, Membership& cluster, OtherJobs& others, TimePoint now)
    : id_(id), model_(std::move(model)), cluster_(cluster), others_(others), model_at_(now) {
  check_task(model_);
  want_plan(now);
}

// ---- State ----

bool Job::has_epoch(Epoch epoch) const {
  return (serving_ && serving_->epoch == epoch) || (change_ && change_->epoch == epoch) ||
         (halted_ && halted_->epoch == epoch);
}

std::optional<ChangePhase> Job::change_phase() const {
  return change_ ? std::optional(change_->phase) : std::nullopt;
}

const Placement* Job::change_placement() const {
  return change_ && change_->phase != ChangePhase::kPlanning ? &change_->placement : nullptr;
}

std::string Job::why_not_serving() const {
  if (connected()) return {};
  const Incarnation incarnation = cluster_.config().incarnation;
  if (serving_)
    return fmt::format("connecting the stages of plan {}", plan_number(incarnation, serving_->epoch));
  if (change_)
    return fmt::format("{} plan {}", change_phase_name(change_->phase),
                       plan_number(incarnation, change_->epoch));
  if (!why_waiting_.empty()) return why_waiting_;
  if (const std::string measuring = cluster_.survey_words();
      !measuring.empty() && cluster_.nodes_here() >= cluster_.nodes_wanted())
    return measuring;
  return fmt::format("waiting for nodes, {} of {} are here", cluster_.nodes_here(), cluster_.nodes_wanted());
}

bool Job::has_part(const NodeId& node) const {
  return (serving_ && serving_->placement.find(node) != nullptr) ||
         (change_placement() != nullptr && change_->placement.find(node) != nullptr);
}

uint64_t Job::reserved_bytes(const NodeId& node) const {
  uint64_t bytes = 0;
  for (const Placement* placement : {serving_placement(), change_placement()})
    if (const StageMember* member = placement == nullptr ? nullptr : placement->find_member(node))
      bytes = std::max(bytes, member->memory_bytes);
  return bytes;
}

// The plan predicts the longest step; where steps take longer than that, what they took counts.
Duration Job::stall_limit(const Member& member) const {
  Duration limit{};
  if (serving_)
    if (const StagePlacement* stage = serving_->placement.find(member.id))
      limit =
          std::max(stage->stall_after, std::min(kStallSteps * member.pulse.longest_step(id_), kStallMost));
  if (change_ && change_->waiting_for.contains(member.id.key))
    limit = std::max(limit, cluster_.config().load_stall);
  return limit;
}

TimePoint Job::held_until(const NodeId& node) const {
  const auto found = holds_.find(node.key);
  return found == holds_.end() ? TimePoint{} : found->second.until;
}

// ---- When to plan ----

void Job::set_model(ModelTask model, TimePoint now) {
  check_task(model);
  if (model == model_) return;
  model_ = std::move(model);
  model_at_ = now;
  attempts_ = without_plan_ = claims_ = 0;
  holds_.clear();
  cancel_change();
  if (serving_) halt("another model is wanted", now);
  before_ = {};
  why_waiting_.clear();
  want_plan(now);
}

void Job::end(TimePoint now) {
  cancel_change();
  if (serving_) halt("it is not wanted any more", now);
  plan_at_.reset();
  release_others(cluster_.next_epoch(), nullptr);
}

void Job::give_way(const std::string& why, TimePoint now) {
  cancel_change();
  if (serving_) halt(why, now);
  why_waiting_ = why;
  release_others(cluster_.next_epoch(), nullptr);
  want_plan(now);
}

void Job::want_plan(TimePoint at) { plan_at_ = plan_at_ ? std::min(*plan_at_, at) : at; }

bool Job::may_plan(TimePoint now) const {
  if (!plan_at_ || now < *plan_at_ || change_) return false;
  // What was lost is put right at once; what is new can wait until it is known.
  if (ever_served_ && !serving_) return true;
  if (!cluster_.survey_done(now)) return false;
  // Only the first plan waits for nodes that may never come: one that died and came back is used without the
  // others.
  return ever_served_ || cluster_.nodes_here() >= cluster_.nodes_wanted() ||
         now - model_at_ >= cluster_.config().nodes_wait;
}

bool Job::may_use(const Member& member, bool with_held, TimePoint now) const {
  if (member.state != NodeState::kUp || !member.hold.allows(with_held, now)) return false;
  // Better one that is about to go than none.
  if (member.drain != Member::Drain::kNo && (serving_ || !with_held)) return false;
  const auto own = holds_.find(member.id.key);
  if (own == holds_.end()) return true;
  // While nothing is served there is no time for tries: of many nodes several cannot load, each found in an
  // attempt of its own, and the first would be back before the last is known. They are asked if the model
  // does not fit without them. Nothing does without the coordinator's own: that it once failed must not bring
  // back all the others.
  const bool may_try = serving_ || with_held || member.id == cluster_.config().self ||
                       !own->second.doubted(cluster_.config(), now);
  return may_try && own->second.allows(with_held, now);
}

PlanQuestion Job::question(TimePoint now, bool with_held) const {
  PlanQuestion question;
  question.job = id_;
  question.model = model_;
  question.coordinator = cluster_.config().self;
  for (const auto& [key, member] : std::as_const(cluster_).members()) {
    if (!may_use(member, with_held, now)) continue;
    // What the node says includes what its stages hold: that of other jobs is theirs.
    const uint64_t all = member.usable_bytes();
    question.nodes.push_back({member.id, member.capabilities,
                              all - std::min(all, others_.reserved_bytes(id_, claims_room(), member.id)),
                              member.slowness, member.pulse.last().machine.held_up_s});
  }
  const auto asked = [&](const std::string& key) {
    return std::any_of(question.nodes.begin(), question.nodes.end(),
                       [&](const PlanNode& node) { return node.id.key == key; });
  };
  for (const auto& [pair, figures] : cluster_.links())
    if (asked(pair.first) && asked(pair.second)) question.links.emplace(pair, figures);
  for (const PlanNode& a : question.nodes)
    for (const PlanNode& b : question.nodes)
      if (a.id.key < b.id.key && !question.links.contains({a.id.key, b.id.key}))
        if (const auto figures = cluster_.estimate(a.id.key, b.id.key)) {
          question.links[{a.id.key, b.id.key}] = *figures;
          question.links[{b.id.key, a.id.key}] = *figures;
        }
  question.broken = cluster_.broken_pairs(with_held, now);
  if (serving_) question.current = serving_->placement;
  return question;
}

bool Job::uses_drained(const Placement& placement) const {
  const auto& members = std::as_const(cluster_).members();
  return std::ranges::any_of(placement.nodes(), [&](const NodeId& node) {
    const auto found = members.find(node.key);
    return found != members.end() && found->second.drain != Member::Drain::kNo;
  });
}

void Job::move_away(TimePoint now) {
  if (change_ && (change_->phase == ChangePhase::kPlanning || uses_drained(change_->placement)))
    cancel_change();
  why_no_other_.clear();
  if (!change_) want_plan(now);
}

void Job::begin_change(bool with_held, TimePoint now) {
  plan_at_.reset();
  why_no_other_.clear();
  PlanQuestion asked = question(now, with_held);
  asked.epoch = cluster_.next_epoch();
  Change change;
  change.epoch = asked.epoch;
  change.began_at = now;
  change.with_held = with_held;
  change.claims = claims_room();
  for (const PlanNode& node : asked.nodes) change.asked.insert(node.id.key);
  change_ = std::move(change);
  if (asked.nodes.empty()) return no_plan({Errc::kNotFound, "no node is up"}, now);
  ++cluster_.counters().plans;
  cluster_.act(MakePlan{std::move(asked)});
}

void Job::postpone_planning(TimePoint now) {
  if (!change_ || change_->phase != ChangePhase::kPlanning) return;
  change_.reset();
  want_plan(now);
}

Duration Job::retry_delay() const {
  if (attempts_ <= 1) return Duration{};
  const uint32_t doublings = std::min(attempts_ - 2, 16u);
  return std::min(cluster_.config().retry_max, cluster_.config().retry_min * (int64_t{1} << doublings));
}

bool Job::claims_room() const {
  return !serving_ && without_plan_ >= kClaimAfter << std::min(claims_, kClaimDoublings);
}

void Job::no_plan(const Status& why, TimePoint now) {
  const Epoch epoch = change_->epoch;
  const bool tried_all = change_->with_held;
  change_.reset();
  const auto& members = std::as_const(cluster_).members();
  const auto held = [&](const auto& row) {
    return may_use(row.second, true, now) && !may_use(row.second, false, now);
  };
  if (!tried_all && (std::any_of(members.begin(), members.end(), held) || cluster_.may_be_mended(now)))
    return begin_change(true, now);
  if (serving_) {  // what runs is as good as it gets
    why_no_other_ = why.text();
    return;
  }
  if (why_waiting_ != why.text()) cluster_.note(now, EventKind::kNoPlan, "", epoch, why.text());
  why_waiting_ = why.text();
  last_failure_ = why.text();
  ++attempts_;
  ++without_plan_;
  want_plan(now + std::max(retry_delay(), cluster_.config().retry_min));
}

void Job::planned(Epoch epoch, Result<Placement> placement, TimePoint now) {
  if (!change_ || change_->epoch != epoch || change_->phase != ChangePhase::kPlanning) {
    ++cluster_.counters().old_epochs;
    return;
  }
  if (!placement.ok()) return no_plan(placement.status(), now);
  std::string problem = why_not_whole(*placement);
  for (const NodeId& node : placement->nodes())
    if (problem.empty() && !change_->asked.contains(node.key))
      problem = fmt::format("it uses node {}, which is not available", node.name);
  if (!problem.empty()) return no_plan({Errc::kInvalidArgument, "the plan is not usable: " + problem}, now);
  without_plan_ = 0;
  if (serving_) {
    // By today's figures, where the planner gives them: links may have been measured since.
    const double current = placement->current_tokens_per_s > 0 ? placement->current_tokens_per_s
                                                               : serving_->placement.tokens_per_s;
    const double gain = current > 0 ? placement->tokens_per_s / current : cluster_.config().gain_min;
    if (placement->current_tokens_per_s > 0)
      serving_->placement.tokens_per_s = placement->current_tokens_per_s;
    const bool better =
        placement->asked_for || gain >= cluster_.config().gain_min || uses_drained(serving_->placement);
    if (serving_->placement.same_work(*placement) || !better) {
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
  if (!change_->placement.words.empty()) words += "; " + change_->placement.words;
  cluster_.note(now, EventKind::kPlanned, "", epoch, std::move(words));
  if (!serving_) return begin_loading(now);
  begin_phase(ChangePhase::kPreparing, now);
  for (Assignment& work : assignments())
    cluster_.send(work.self().node, Prepare{cluster_.config().incarnation, work});
}

// ---- The phases ----

// One for every member of every stage.
std::vector<Assignment> Job::assignments() const {
  std::vector<Assignment> all;
  for (size_t stage = 0; stage < change_->placement.stages.size(); ++stage)
    for (size_t member = 0; member < change_->placement.stages[stage].members.size(); ++member)
      all.push_back(assignment(stage, member));
  return all;
}

Assignment Job::assignment(size_t stage, size_t member) const {
  const auto& stages = change_->placement.stages;
  const auto& members = std::as_const(cluster_).members();
  const CoordinatorConfig& config = cluster_.config();
  Assignment work;
  work.job = id_;
  work.epoch = change_->epoch;
  work.model = model_;
  work.begin = stages[stage].begin;
  work.end = stages[stage].end;
  work.pieces = change_->placement.pieces;
  work.stage = static_cast<uint32_t>(stage);
  work.stages = static_cast<uint32_t>(stages.size());
  work.member = static_cast<uint32_t>(member);
  for (const StageMember& row : stages[stage].members)
    work.members.push_back({row.node, members.at(row.node.key).address, row.share});
  work.previous = stage == 0 ? config.self : stages[stage - 1].first();
  // The coordinator's node, which has the last stage, sends to the first.
  const bool last = stage + 1 == stages.size();
  const bool to_first = last && stages[stage].first() == config.self;
  work.next = to_first ? stages.front().first() : last ? config.self : stages[stage + 1].first();
  work.next_address = work.next == config.self ? config.address : members.at(work.next.key).address;
  work.sources.push_back({config.self, config.address});
  for (const auto& [key, other] : members)
    if (work.sources.size() < kSourcesMax && other.here() && !other.address.empty() &&
        key != config.self.key && key != work.self().node.key)
      work.sources.push_back({other.id, other.address});
  if (work.members.size() == 1) add_holders(work);
  return work;
}

// Nodes whose pieces this stage takes over. Members that share a stage have parts of each layer's cache,
// which nobody puts together.
void Job::add_holders(Assignment& work) const {
  const auto& members = std::as_const(cluster_).members();
  const NodeId& self = work.self().node;
  if (before_.pieces != work.pieces) return;
  for (const StagePlacement& stage : before_.stages) {
    const auto found = members.find(stage.first().key);
    const uint32_t begin = std::max(stage.begin, work.begin), end = std::min(stage.end, work.end);
    if (stage.members.size() != 1 || stage.first() == self || begin >= end || found == members.end() ||
        !found->second.here() || found->second.address.empty() || work.holders.size() == kSourcesMax)
      continue;
    const auto link = cluster_.links().find({stage.first().key, self.key});
    const std::optional<LinkFigures> figures = link != cluster_.links().end()
                                                   ? std::optional(link->second)
                                                   : cluster_.estimate(stage.first().key, self.key);
    work.holders.push_back(
        {stage.first(), found->second.address, begin, end, figures ? figures->bandwidth : 0});
  }
}

// Every member of every stage has something to report.
void Job::begin_phase(ChangePhase phase, TimePoint now) {
  change_->phase = phase;
  change_->began_at = now;
  change_->waiting_for.clear();
  if (phase == ChangePhase::kPausing) return;
  for (const NodeId& node : change_->placement.nodes()) {
    change_->waiting_for.insert(node.key);
    cluster_.find(node)->pulse.expect_progress(id_, now);
  }
}

void Job::steps_paused(Epoch next, TimePoint now) {
  if (!change_ || change_->epoch != next || change_->phase != ChangePhase::kPausing) {
    ++cluster_.counters().old_epochs;
    return;
  }
  begin_loading(now);
}

// Who has no part in the plan of this epoch frees what it had of an older one.
void Job::release_others(Epoch epoch, const Placement* placement) {
  for (const auto& [key, member] : std::as_const(cluster_).members())
    if (member.here() && (placement == nullptr || placement->find(member.id) == nullptr))
      cluster_.send(member,
                    Release{.incarnation = cluster_.config().incarnation,
                            .epoch = epoch,
                            .job = id_,
                            .cache_wanted = placement != nullptr && before_.find(member.id) != nullptr});
}

void Job::begin_loading(TimePoint now) {
  if (serving_) {
    cluster_.act(HaltSteps{id_, serving_->epoch, "a new plan takes its place"});
    before_ = std::move(serving_->placement);
  }
  serving_.reset();
  if (others_.make_room(id_, change_->claims, change_->placement, now)) ++claims_;
  begin_phase(ChangePhase::kLoading, now);
  release_others(change_->epoch, &change_->placement);
  // A job that was halted and found no other plan keeps its stages, to be quick when its node comes back; but
  // not in the way of this one.
  for (const NodeId& node : change_->placement.nodes())
    for (const JobId other : others_.without_part(id_, node))
      cluster_.send(node, Release{cluster_.config().incarnation, change_->epoch, other});
  for (Assignment& work : assignments())
    cluster_.send(work.self().node, Assign{cluster_.config().incarnation, work});
}

void Job::begin_starting(TimePoint now) {
  begin_phase(ChangePhase::kStarting, now);
  // From the back, so that who links to the next stage is likely to find it started.
  const std::vector<NodeId> nodes = change_->placement.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    cluster_.send(*node, Go{cluster_.config().incarnation, change_->epoch, id_});
}

void Job::say_serve() {
  ServeSteps action{id_, serving_->epoch, serving_->placement, {}};
  for (const StagePlacement& stage : serving_->placement.stages)
    action.addresses.push_back(cluster_.find(stage.first())->address);
  cluster_.act(std::move(action));
}

void Job::serve(TimePoint now) {
  serving_ = Serving{change_->epoch, std::move(change_->placement), now, false};
  change_.reset();
  ever_served_ = true;
  why_waiting_.clear();
  say_serve();
}

void Job::steps_connected(Epoch epoch, TimePoint now) {
  if (!serving_ || serving_->epoch != epoch || serving_->connected) {
    ++cluster_.counters().old_epochs;
    return;
  }
  serving_->connected = true;
  serving_->since = now;
  cluster_.note(now, EventKind::kServing, "", epoch,
                fmt::format("{} on {} node{}", model_.name, serving_->placement.nodes().size(),
                            serving_->placement.nodes().size() == 1 ? "" : "s"));
  cluster_.survey_chain(serving_->placement, now);
}

void Job::prepared(Member& member, const Prepared& message, TimePoint now) {
  const bool current =
      change_ && change_->epoch == message.epoch && change_->phase == ChangePhase::kPreparing;
  const Member* peer = cluster_.find(message.peer);
  if (current && message.code != Errc::kOk && peer != nullptr) {
    // Its weights are there, the way to the next stage is not. What is served goes on.
    cluster_.cannot_reach(member, *peer, message.text, now);
    give_up_change(fmt::format("{} cannot reach {}: {}", member.id.name, peer->id.name, message.text),
                   member.id.name, now);
    return want_plan(now + retry_delay());
  }
  reported(member, message.epoch, ChangePhase::kPreparing, message.code, message.text, now);
}

void Job::ready(Member& member, const Ready& message, TimePoint now) {
  const bool current =
      change_ && change_->epoch == message.epoch && change_->waiting_for.contains(member.id.key);
  if (current && message.code == Errc::kOk)
    cluster_.note(now, EventKind::kLoaded, member.id.name, message.epoch,
                  fmt::format("{} in {}", format_bytes(message.bytes),
                              format_duration(std::chrono::milliseconds(message.ms))));
  reported(member, message.epoch, ChangePhase::kLoading, message.code, message.text, now);
}

void Job::started(Member& member, const Started& message, TimePoint now) {
  if (message.code == Errc::kOk)
    return reported(member, message.epoch, ChangePhase::kStarting, message.code, message.text, now);
  // It could not reach the next stage: who of the two is to blame is not known.
  const auto next_of = [&](const Placement& placement) {
    for (size_t i = 0; i + 1 < placement.stages.size(); ++i)
      if (placement.stages[i].first() == member.id) return placement.stages[i + 1].first();
    return cluster_.config().self;
  };
  if (failed_too(member, message.epoch))
    return cluster_.note_broken(member.id, next_of(given_up_->placement), true, now);
  const bool current = change_ && change_->epoch == message.epoch;
  trouble(message.epoch, member.id, current ? next_of(change_->placement) : cluster_.config().self,
          message.text, now);
}

// The first report of a failure ends an attempt, but of many nodes several fail at once: what the others say
// of the same attempt is as true, and saves an attempt for each of them. Once for each node.
bool Job::failed_too(const Member& member, Epoch epoch) {
  return given_up_ && given_up_->epoch == epoch && given_up_->waiting_for.erase(member.id.key) > 0;
}

void Job::reported(Member& member, Epoch epoch, ChangePhase phase, Errc code, const std::string& text,
                   TimePoint now) {
  const std::string why = fmt::format("it could not load: {}", text);
  if (code != Errc::kOk && failed_too(member, epoch)) {
    cluster_.note(now, EventKind::kLoadFailed, member.id.name, epoch, text);
    return hold(member, why, now);
  }
  if (!change_ || change_->epoch != epoch || change_->phase != phase) {
    ++cluster_.counters().old_epochs;
    return;
  }
  if (change_->waiting_for.erase(member.id.key) == 0) return;
  if (code != Errc::kOk) {
    cluster_.note(now, EventKind::kLoadFailed, member.id.name, epoch, text);
    last_failure_ = fmt::format("{}: {}", member.id.name, why);
    hold(member, why, now);
    cancel_change();
    ++attempts_;
    return want_plan(now + retry_delay());
  }
  if (!change_->waiting_for.empty()) return;
  if (phase == ChangePhase::kPreparing) {
    begin_phase(ChangePhase::kPausing, now);
    cluster_.act(PauseSteps{id_, serving_->epoch, change_->epoch});
  } else if (phase == ChangePhase::kLoading) {
    begin_starting(now);
  } else {
    serve(now);
  }
}

// ---- When things go wrong ----

void Job::cancel_change() {
  if (!change_) return;
  const bool paused = change_->phase == ChangePhase::kPausing;
  // Who still fetches or loads for it would count as working, and then as stuck.
  if (change_->phase != ChangePhase::kPlanning)
    for (const NodeId& node : change_->placement.nodes())
      cluster_.send(node, Abandon{cluster_.config().incarnation, change_->epoch, id_});
  given_up_ = std::exchange(change_, std::nullopt);
  // No node has dropped its stage yet: the steps go on as before.
  if (paused && serving_) say_serve();
}

void Job::give_up_change(const std::string& why, const std::string& node, TimePoint now) {
  cluster_.note(now, EventKind::kLoadFailed, node, change_->epoch, why);
  last_failure_ = why;
  cancel_change();
  ++attempts_;
}

void Job::halt(const std::string& why, TimePoint now) {
  ++cluster_.counters().halts;
  const bool proved = now - serving_->since >= std::clamp(2 * retry_delay(), kProvedMin, kProvedMax);
  attempts_ = proved ? 0 : attempts_ + 1;
  if (proved) claims_ = 0;
  cluster_.act(HaltSteps{id_, serving_->epoch, why});
  cluster_.note(now, EventKind::kHalted, "", serving_->epoch, why);
  last_failure_ = why;
  why_waiting_ = why;
  before_ = serving_->placement;
  halted_ = Halted{serving_->epoch, std::move(serving_->placement), {}};
  serving_.reset();
  // A change on its way does not need what was lost, else it would have been given up: it goes on, and
  // nothing has to be paused any more.
  if (change_ && (change_->phase == ChangePhase::kPreparing || change_->phase == ChangePhase::kPausing))
    begin_loading(now);
}

// It could not do its part of this job: others may have better luck with it.
void Job::hold(Member& member, const std::string& why, TimePoint now) {
  holds_[member.id.key].extend(cluster_.config(), true, now);
  member.last_failure = why;
}

// The chain breaks along its whole length where one link of it is cut, so the word of who is to blame may
// come behind the first report. Once for each node.
bool Job::names_cut(Epoch epoch, const NodeId& reporter, const NodeId& peer) {
  return halted_ && halted_->epoch == epoch && !peer.key.empty() &&
         are_neighbours(halted_->placement, cluster_.config().self, reporter, peer) &&
         halted_->heard.insert(reporter.key).second;
}

void Job::note_cut(const NodeId& reporter, const NodeId& peer, const std::string& why, TimePoint now) {
  for (const auto& [from, to] : ways_between(halted_->placement, reporter, peer))
    cluster_.note_cut(from, to, now);
  cluster_.blame(reporter, peer, now);
  cluster_.note(now, EventKind::kHalted, reporter.name, halted_->epoch,
                fmt::format("{} has trouble with {}: {}", reporter.name, peer.name, why));
}

void Job::trouble(Epoch epoch, const NodeId& reporter, const NodeId& peer, const std::string& why,
                  TimePoint now) {
  const bool served = serving_ && serving_->epoch == epoch;
  const bool starting = change_ && change_->epoch == epoch && change_->phase == ChangePhase::kStarting;
  if (!served && !starting) {
    if (names_cut(epoch, reporter, peer)) return note_cut(reporter, peer, why, now);
    ++cluster_.counters().old_epochs;
    return;
  }
  // Only who has a part in the plan can say that it does not work, and only of its neighbours; else any
  // member could halt what others do.
  const Placement& placement = served ? serving_->placement : change_->placement;
  if (!are_neighbours(placement, cluster_.config().self, reporter, peer)) {
    ++cluster_.counters().unfounded;
    return;
  }
  // Whoever gets nothing names the one before it: it is the way from there that does not work. Of a chain
  // that ran, only who finds a link that passes nothing names somebody.
  for (const auto& [from, to] : ways_between(placement, reporter, peer)) {
    if (served && !peer.key.empty()) {
      cluster_.note_cut(from, to, now);
    } else {
      cluster_.note_broken(from, to, starting, now);
    }
  }
  cluster_.blame(reporter, peer, now);
  const std::string text = fmt::format("{} has trouble with {}: {}", reporter.name,
                                       peer.name.empty() ? "the chain" : peer.name, why);
  Duration wait{};
  if (served) {
    const Duration worked = connected() ? now - serving_->since : Duration{};
    halt(text, now);
    halted_->heard.insert(reporter.key);
    wait = std::min(retry_delay(), worked);  // no longer than it worked
  } else {
    give_up_change(text, reporter.name, now);
    wait = retry_delay();
  }
  // The loss of a node is often seen first by its neighbours.
  if (!change_) want_plan(now + std::max(cluster_.config().trouble_wait, wait));
}

void Job::node_lost(const Member& member, bool dead, const std::string& why, TimePoint now) {
  const bool served = serving_ && serving_->placement.find(member.id) != nullptr;
  const bool planned =
      change_ && (change_->phase == ChangePhase::kPlanning ? change_->asked.contains(member.id.key)
                                                           : change_->placement.find(member.id) != nullptr);
  if (dead && (served || planned)) last_failure_ = fmt::format("{}: {}", member.id.name, why);
  if (planned) cancel_change();
  if (served) halt(fmt::format("node {} is lost: {}", member.id.name, why), now);
  if (!change_ && (!serving_ || planned)) want_plan(now);
}

// ---- Time ----

void Job::check_deadline(TimePoint now) {
  const CoordinatorConfig& config = cluster_.config();
  const Duration waited = now - change_->began_at;
  const std::set<std::string> late = change_->waiting_for;
  const auto give_up = [&](const char* what) {
    for (const std::string& key : late) hold(cluster_.members().at(key), what, now);
    give_up_change(what, late.empty() ? "" : cluster_.members().at(*late.begin()).id.name, now);
    want_plan(now + retry_delay());
  };
  switch (change_->phase) {
    case ChangePhase::kPlanning:
      if (waited >= config.plan_wait) no_plan({Errc::kTimeout, "planning took too long"}, now);
      break;
    case ChangePhase::kPausing:
      // A step that does not end is of an epoch that is over anyway.
      if (waited >= config.pause_wait) begin_loading(now);
      break;
    case ChangePhase::kPreparing:
    case ChangePhase::kLoading:
      if (waited >= config.load_wait) give_up("it took too long to load");
      break;
    case ChangePhase::kStarting:
      if (waited >= config.start_wait) give_up("it did not start");
      break;
  }
}

void Job::tick(TimePoint now) {
  if (change_) check_deadline(now);
  const auto& members = std::as_const(cluster_).members();
  std::erase_if(holds_, [&](const auto& row) { return !members.contains(row.first); });
  // Who was left out for a while may be tried again.
  for (auto& [key, held] : holds_)
    if (members.at(key).here() && held.ends(now)) want_plan(now);
}

void Job::forgive(Duration gap) {
  if (change_) change_->began_at += gap;
}

}  // namespace butterfly::cluster
