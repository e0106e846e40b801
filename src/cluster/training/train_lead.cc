#include "cluster/training/train_lead.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "cluster/training/deal.h"

namespace butterfly::cluster {

TrainLead::TrainLead(TrainLeadConfig config)
    : config_(std::move(config)),
      step_(config_.step),
      target_(config_.step),
      snapshot_step_(config_.step),
      snapshot_every_(config_.snapshot_every) {
  plan_.epoch = config_.first_epoch - 1;
  plan_.step = step_;
  members_[kTrainLeader].row.id = kTrainLeader;
  plan_.shards = {{kTrainLeader, 0, static_cast<uint32_t>(config_.block_bytes.size())}};
  plan_.slots = config_.slots;
  if (config_.residuals) plan_.held = {{kTrainLeader, 0, config_.slots}};
  actions_.push_back(KeepSnapshot{step_, plan_.shards, plan_.held});
  if (config_.pipeline) members_[kTrainLeader].memory = config_.pipeline->memory;
  begin_epoch(config_.pipeline ? From::kState : From::kHere);
}

template <typename Test>
bool TrainLead::all(Test test) const {
  return std::ranges::all_of(members_, [&](const auto& entry) { return test(entry.first, entry.second); });
}

double TrainLead::speed(TrainMemberId member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? 0 : found->second.speed;
}

std::vector<TrainMemberId> TrainLead::waiting_for() const {
  std::vector<TrainMemberId> missing;
  for (const auto& [id, member] : members_) {
    const bool owner = is_owner(id);
    const bool waits = (phase_ == Phase::kForming && !member.ready) ||
                       (phase_ == Phase::kStepping && (!member.leaves_done || (owner && !member.prepared))) ||
                       (phase_ == Phase::kCommitting && owner) ||
                       (phase_ == Phase::kGathering && !member.reported);
    if (id != kTrainLeader && waits) missing.push_back(id);
  }
  return missing;
}

TrainLead::Member* TrainLead::current(TrainMemberId id, Epoch epoch, uint64_t step, Phase phase) {
  const auto found = members_.find(id);
  if (found != members_.end() && epoch == plan_.epoch && step == step_ && phase == phase_)
    return &found->second;
  ++counters_.old_reports;
  return nullptr;
}

void TrainLead::join(const TrainPlan::Member& member, double bandwidth, uint64_t memory) {
  BF_CHECK(!members_.contains(member.id) && member.id != kTrainLeader) << "member " << member.id << " twice";
  ++counters_.joined;
  joining_[member.id] = {.row = member, .bandwidth = std::max(bandwidth, 1e-9), .memory = memory};
  if (phase_ == Phase::kShort) begin_epoch(From::kSnapshot);
  go_on();
}

void TrainLead::lose(TrainMemberId id) {
  BF_CHECK(id != kTrainLeader) << "the leader lost itself";
  if (joining_.erase(id) > 0) ++counters_.lost;
  if (members_.erase(id) == 0) return;
  ++counters_.lost;
  if (is_owner(id) || config_.residuals || phase_ == Phase::kShort) {
    // Its moments or residuals are gone, and where it had a part in forming an epoch the others may have got
    // theirs. Who has begun this step has other residuals than before, so nobody can begin it once more.
    begin_epoch(From::kSnapshot);
  } else if (phase_ == Phase::kStepping || phase_ == Phase::kForming) {
    // Nothing has changed anywhere: the same step once more. Of an epoch that was to begin with a state from
    // here, nobody knows who has it already.
    if (phase_ == Phase::kStepping) ++counters_.steps_redone;
    begin_epoch(phase_ == Phase::kForming && from_ != From::kHere ? From::kSnapshot : From::kHere);
  }
  // Between steps and while a decided one is finished, the others go on as they are; before the next one they
  // are told who is left.
  plan_is_old_ = phase_ != Phase::kForming;
  go_on();
}

void TrainLead::ready(TrainMemberId id, Epoch epoch) {
  if (Member* member = current(id, epoch, step_, Phase::kForming)) member->ready = true;
  go_on();
}

void TrainLead::leaves_done(TrainMemberId id, Epoch epoch, uint64_t step, double seconds, size_t made) {
  Member* member = current(id, epoch, step, Phase::kStepping);
  if (member == nullptr || member->leaves_done) return;
  member->leaves_done = true;
  const size_t stage = plan_.stage_of(id);
  for (const DealtLeaves& dealt : deal_) {
    const bool has_stage = stage < plan_.stages.size();
    if ((dealt.member != id && !has_stage) || dealt.leaves.empty() || seconds <= 0) continue;
    double work = static_cast<double>(std::min(made, dealt.leaves.size()));
    if (has_stage) {
      double flops = 0;
      for (uint32_t i = plan_.stages[stage].begin; i < plan_.stages[stage].end; ++i)
        flops += config_.pipeline->pieces[i].flops;
      work *= flops;
    }
    // The last steps count most, and one that was disturbed does not decide.
    if (work == 0) continue;
    const double now = work / seconds;
    member->speed = member->speed == 0 ? now : 0.8 * member->speed + 0.2 * now;
  }
  go_on();
}

void TrainLead::tick(double now) {
  now_ = now;
  go_on();
}

std::optional<double> TrainLead::cut_at() const {
  if (phase_ != Phase::kStepping || cut_ || !quorum_since_) return std::nullopt;
  return *quorum_since_ + config_.grace_s;
}

void TrainLead::look_at_quorum() {
  if (phase_ != Phase::kStepping || cut_ || config_.quorum >= 1) return;
  size_t with_leaves = 0;
  std::set<TrainMemberId> late;
  for (const DealtLeaves& dealt : deal_) {
    if (dealt.leaves.empty()) continue;
    ++with_leaves;
    if (!members_.at(dealt.member).leaves_done) late.insert(dealt.member);
  }
  const auto needed =
      static_cast<size_t>(std::ceil(config_.quorum * static_cast<double>(with_leaves) - 1e-9));
  if (late.empty() || with_leaves - late.size() < std::max<size_t>(1, needed)) return;
  if (!quorum_since_) quorum_since_ = now_;
  if (now_ < *quorum_since_ + config_.grace_s) return;
  cut_ = true;
  counters_.cut_short += late.size();
  actions_.push_back(CutShort{plan_.epoch, step_, std::move(late)});
}

void TrainLead::prepared(TrainMemberId id, Epoch epoch, uint64_t step) {
  Member* member = current(id, epoch, step, Phase::kStepping);
  if (member == nullptr || !is_owner(id)) return;
  member->prepared = true;
  go_on();
}

void TrainLead::complete(Epoch epoch, uint64_t step) {
  if (phase_ != Phase::kCommitting || epoch != plan_.epoch || step != step_ + 1) return;
  ++step_;
  phase_ = Phase::kBetween;
  go_on();
}

void TrainLead::state_report(TrainMemberId id, Epoch epoch, uint64_t step, const std::string& hash) {
  Member* member = current(id, epoch, step, Phase::kGathering);
  if (member == nullptr) return;
  member->reported = true;
  member->hash = hash;
  go_on();
}

void TrainLead::run_until(uint64_t step, size_t leaves) {
  BF_CHECK(leaves > 0 && step >= step_) << "step " << step << " of " << leaves << " micro-batches";
  target_ = step;
  leaves_ = leaves;
  go_on();
}

void TrainLead::want_state() {
  state_wanted_ = true;
  go_on();
}

void TrainLead::go_on() {
  if (phase_ == Phase::kForming && all([](auto, const Member& m) { return m.ready; }))
    phase_ = Phase::kBetween;
  look_at_quorum();
  if (phase_ == Phase::kStepping && all([&](TrainMemberId id, const Member& m) {
        return m.leaves_done && (m.prepared || !is_owner(id));
      })) {
    phase_ = Phase::kCommitting;
    actions_.push_back(CommitStep{plan_.epoch, step_});
  }
  if (phase_ == Phase::kGathering && all([](auto, const Member& m) { return m.reported; })) end_gather();
  if (phase_ != Phase::kBetween) return;
  const bool here = snapshot_step_ == step_;
  if (state_wanted_ && step_ == target_ && here) state_wanted_ = false;
  const bool due = step_ - snapshot_step_ >= snapshot_every_ || (state_wanted_ && step_ == target_);
  if (!joining_.empty() && here) {
    begin_epoch(From::kState);
  } else if (plan_is_old_ && (step_ < target_ || due)) {
    begin_epoch(From::kHere);
  } else if (!joining_.empty() || due) {
    gather();
  } else if (step_ < target_) {
    deal_step();
  }
}

void TrainLead::begin_epoch(From from) {
  if (from == From::kSnapshot) {
    ++counters_.rollbacks;
    counters_.steps_rolled_back += step_ - snapshot_step_;
    step_ = snapshot_step_;
  }
  std::set<TrainMemberId> fresh;
  if (from != From::kHere) {
    for (auto& [id, member] : joining_) {
      fresh.insert(id);
      members_.insert_or_assign(id, std::move(member));
    }
    joining_.clear();
  }
  ++counters_.epochs;
  TrainPlan plan{.epoch = plan_.epoch + 1, .step = step_, .slots = config_.slots};
  for (auto& [id, member] : members_) {
    member.ready = false;
    plan.members.push_back(member.row);
  }
  if (from == From::kHere) {
    plan.stages = plan_.stages;
  } else if (config_.pipeline && !set_stages(plan)) {
    // Nobody is told: what they have is of no use, and the next who joins decides.
    phase_ = Phase::kShort;
    plan_.stages.clear();
    return;
  }
  plan.tied = config_.pipeline && config_.pipeline->tied_blocks > 0;
  plan.in_flight = config_.pipeline ? config_.pipeline->in_flight : 0;
  BeginEpoch action;
  action.from_snapshot = from == From::kSnapshot;
  if (from == From::kHere) {
    plan.shards = plan_.shards;
    plan.held = plan_.held;
  } else {
    if (!config_.pipeline) set_shards(plan);
    plan.held = hold_slots();
    const auto same = [](const auto* a, const auto* b) { return a == nullptr || (b != nullptr && *a == *b); };
    for (const auto& [id, member] : members_) {
      if (config_.pipeline) {
        // Where stages have moved, what members keep has too.
        const bool has_stage = plan.stage_of(id) < plan.stages.size();
        if (has_stage && (action.from_snapshot || plan.stages != plan_.stages)) {
          action.weights_for.insert(id);
          action.moments_for.insert(id);
        }
        continue;
      }
      if (action.from_snapshot || fresh.contains(id)) action.weights_for.insert(id);
      if (plan.keeps_state(id) && (action.from_snapshot || !same(plan.shard_of(id), plan_.shard_of(id)) ||
                                   !same(plan.held_by(id), plan_.held_by(id))))
        action.moments_for.insert(id);
    }
  }
  plan_ = std::move(plan);
  action.plan = plan_;
  from_ = from;
  plan_is_old_ = false;
  phase_ = Phase::kForming;
  actions_.push_back(std::move(action));
}

void TrainLead::set_shards(TrainPlan& plan) const {
  std::vector<double> bandwidths;
  for (const auto& [id, member] : members_) bandwidths.push_back(member.bandwidth);
  const std::vector<size_t> ends = cut_blocks(config_.block_bytes, bandwidths, config_.shard_bytes_min);
  uint32_t begin = 0;
  size_t i = 0;
  for (const auto& [id, member] : members_) {
    const auto end = static_cast<uint32_t>(ends[i++]);
    if (end == begin) continue;
    plan.shards.push_back({id, begin, end});
    begin = end;
  }
}

bool TrainLead::set_stages(TrainPlan& plan) {
  std::vector<StageCandidate> candidates;
  std::vector<TrainMemberId> ids;
  const std::vector<double> all_speeds = speeds();
  for (const auto& [id, member] : members_) {
    candidates.push_back({all_speeds[ids.size()], member.memory});
    ids.push_back(id);
  }
  const auto cuts = cut_stages(*config_.pipeline, candidates);
  why_short_ = cuts ? std::string() : cuts.status().text();
  if (!cuts) return false;
  for (const StageCut& cut : *cuts) plan.stages.push_back({ids[cut.member], cut.begin, cut.end});
  uint32_t at = config_.pipeline->tied_blocks;
  if (at > 0) plan.shards.push_back({plan.stages.back().member, 0, at});
  for (const PipelineStage& stage : plan.stages) {
    uint32_t end = at;
    for (uint32_t i = stage.begin; i < stage.end; ++i) end += config_.pipeline->pieces[i].blocks;
    if (end > at) plan.shards.push_back({stage.member, at, end});
    at = end;
  }
  return true;
}

// Whose speed is not known yet counts as the others do on average.
std::vector<double> TrainLead::speeds() const {
  double sum = 0;
  size_t known = 0;
  for (const auto& [id, member] : members_) {
    sum += member.speed;
    known += member.speed > 0 ? 1 : 0;
  }
  const double usual = known == 0 ? 1 : sum / static_cast<double>(known);
  std::vector<double> speeds;
  for (const auto& [id, member] : members_) speeds.push_back(member.speed > 0 ? member.speed : usual);
  return speeds;
}

std::vector<HeldSlots> TrainLead::hold_slots() const {
  std::vector<HeldSlots> held;
  if (!config_.residuals) return held;
  const std::vector<LeafRange> ranges = deal_leaves(config_.slots, speeds());
  size_t i = 0;
  for (const auto& [id, member] : members_) {
    const LeafRange& range = ranges[i++];
    if (!range.empty())
      held.push_back({id, static_cast<uint32_t>(range.begin), static_cast<uint32_t>(range.end)});
  }
  return held;
}

void TrainLead::deal_step() {
  quorum_since_.reset();
  cut_ = false;
  for (auto& [id, member] : members_) member.leaves_done = member.prepared = false;
  if (config_.pipeline) {
    deal_ = {{kTrainLeader, {0, leaves_}}};
    phase_ = Phase::kStepping;
    actions_.push_back(DealStep{plan_.epoch, step_, deal_});
    return;
  }
  // In whole slots, where there are any.
  const PairTree tree(leaves_);
  const uint32_t level = config_.slots == 0 ? 0 : plan_.level_max(leaves_);
  BF_CHECK(!config_.residuals || tree.count(level) == config_.slots)
      << leaves_ << " micro-batches in " << config_.slots << " slots";
  const std::vector<LeafRange> ranges = deal_leaves(tree.count(level), speeds());
  deal_.clear();
  size_t i = 0, at = 0;
  for (const auto& [id, member] : members_) {
    LeafRange units = ranges[i++];
    if (config_.residuals) {
      const HeldSlots* held = plan_.held_by(id);
      units = held == nullptr ? LeafRange{at, at} : LeafRange{held->begin, held->end};
    }
    at = units.end;
    deal_.push_back({id, {std::min(leaves_, units.begin << level), std::min(leaves_, units.end << level)}});
  }
  phase_ = Phase::kStepping;
  actions_.push_back(DealStep{plan_.epoch, step_, deal_});
}

void TrainLead::gather() {
  for (auto& [id, member] : members_) {
    member.reported = false;
    member.hash.clear();
  }
  phase_ = Phase::kGathering;
  actions_.push_back(GatherState{plan_.epoch, step_});
}

void TrainLead::end_gather() {
  std::vector<TrainMemberId> differing;
  for (const auto& [id, member] : members_)
    if (member.hash != members_.at(kTrainLeader).hash) differing.push_back(id);
  if (differing.empty()) {
    snapshot_step_ = step_;
    actions_.push_back(KeepSnapshot{step_, plan_.shards, plan_.held});
    phase_ = Phase::kBetween;
    return;
  }
  // Gradients of wrong parameters went into every step since the last snapshot.
  for (const TrainMemberId id : differing) {
    ++counters_.differing;
    members_.erase(id);
    actions_.push_back(DropMember{id, "its parameters are not those of the leader"});
  }
  begin_epoch(From::kSnapshot);
}

}  // namespace butterfly::cluster
