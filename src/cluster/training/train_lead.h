// The leader of a training job: a pure state machine that says who computes what, when a step counts, and how
// to go on after a loss. What is summed and sent is its shell's business.
//
//   forming     BeginEpoch -> ready() of all members
//   between     all members have, or will get, the weights of step(); joins happen here
//   stepping    DealStep -> leaves_done() of all, prepared() of all owners: every gradient is whole
//   committing  CommitStep -> complete(): this process has the weights of the next step
//   short       of a pipeline: those who are there have too little memory; the next who joins may change that
//   gathering   GatherState -> state_report() of all: hashes of parameters, moments of owners
//
// A step is decided by the leader alone, once every owner has all it needs; before that nothing has changed
// anywhere, after that it can only be finished or, if an owner is lost with its moments, be computed again
// from the last snapshot, with the same bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/training/cut_stages.h"
#include "cluster/training/train_plan.h"

namespace butterfly::cluster {

struct TrainLeadConfig {
  uint64_t step = 0;  // steps done: the leader has this state
  Epoch first_epoch = 1;
  std::vector<uint64_t> block_bytes = {};
  // Steps between snapshots, at which hashes of all parameters are compared: what is computed again at most.
  uint64_t snapshot_every = 20;          // see set_snapshot_every()
  uint64_t shard_bytes_min = 256 << 10;  // fewer owners where parts would be smaller
  uint32_t slots = 0;                    // of TrainPlan
  // What a member has computed changes what it sends later: slots stay where they are for an epoch, and
  // whoever is lost takes a part of the state along.
  bool residuals = false;
  // Where members make steps of their own before they meet: once so many of those who have leaves (a part of
  // them) are done and so many seconds have passed since, the others end the step with what they have. 1: all
  // are waited for.
  double quorum = 1;
  double grace_s = 0;
  // The network is cut into stages: without `slots`. Every stage keeps a part of the state, and any that is
  // lost takes all back to the snapshot.
  std::optional<PipelineConfig> pipeline = {};
};

// ---- What the shell is asked to do, in order ----

// To each member of the plan, and this process itself. `from_snapshot`: members go back to the last snapshot.
struct BeginEpoch {
  TrainPlan plan = {};
  std::set<TrainMemberId> weights_for = {};  // whom the leader sends all weights of plan.step
  std::set<TrainMemberId> moments_for = {};  // who does not have those of its shard, or its slots' residuals
  bool from_snapshot = false;
};
struct DealStep {
  Epoch epoch = 0;
  uint64_t step = 0;
  std::vector<DealtLeaves> deal = {};
};
// These end what they compute as soon as they can, and report what they have.
struct CutShort {
  Epoch epoch = 0;
  uint64_t step = 0;
  std::set<TrainMemberId> members = {};
};
// Every owner updates its shard.
struct CommitStep {
  Epoch epoch = 0;
  uint64_t step = 0;
};
struct GatherState {
  Epoch epoch = 0;
  uint64_t step = 0;
};
// What was gathered is the state to go back to. The plan may have changed already: `shards` are those of the
// owners who sent their moments.
struct KeepSnapshot {
  uint64_t step = 0;
  std::vector<OwnedShard> shards = {};
  std::vector<HeldSlots> held = {};
};
// Its link is closed; it may join again.
struct DropMember {
  TrainMemberId member = 0;
  std::string why = {};
};
using TrainLeadAction =
    std::variant<BeginEpoch, DealStep, CutShort, CommitStep, GatherState, KeepSnapshot, DropMember>;

struct TrainLeadCounters {
  uint64_t epochs = 0;
  uint64_t joined = 0, lost = 0;
  uint64_t steps_redone = 0;  // dealt again, because a member was lost before they were decided
  uint64_t rollbacks = 0, steps_rolled_back = 0;
  uint64_t old_reports = 0;  // of an epoch or step that is over
  uint64_t differing = 0;    // members whose parameters had another hash
  uint64_t cut_short = 0;    // members that were asked to end a step with what they had
};

// Not thread-safe: events come from one thread, in the order they happen; then take_actions().
class TrainLead {
 public:
  enum class Phase : uint8_t { kForming, kBetween, kStepping, kCommitting, kGathering, kShort };

  explicit TrainLead(TrainLeadConfig config);

  // ---- Events ----
  // A node that has agreed to the job and can be linked to. It takes part from the next step on.
  void join(const TrainPlan::Member& member, double bandwidth, uint64_t memory = 0);
  void lose(TrainMemberId member);
  void ready(TrainMemberId member, Epoch epoch);
  // `made`: so many of its leaves, where it was asked to end early.
  void leaves_done(TrainMemberId member, Epoch epoch, uint64_t step, double seconds, size_t made = SIZE_MAX);
  // The time, in seconds since any moment. Only a quorum asks for it.
  void tick(double now);
  void prepared(TrainMemberId member, Epoch epoch, uint64_t step);
  // This process has all weights of `step`.
  void complete(Epoch epoch, uint64_t step);
  // Its parameters have this hash; of an owner: its moments have come too.
  void state_report(TrainMemberId member, Epoch epoch, uint64_t step, const std::string& hash);
  // Steps shall be made until so many are done, each of so many micro-batches.
  void run_until(uint64_t step, size_t leaves);
  // The whole state of the step that is reached shall be here.
  void want_state();
  // From now on so many steps between snapshots: what their cost allows. 1 or more.
  void set_snapshot_every(uint64_t steps) { snapshot_every_ = std::max<uint64_t>(1, steps); }

  std::vector<TrainLeadAction> take_actions() { return std::exchange(actions_, {}); }

  // ---- State ----
  Phase phase() const { return phase_; }
  uint64_t step() const { return step_; }
  // The last step that was asked for is done, and the state is here if that was asked for.
  bool idle() const { return phase_ == Phase::kBetween && step_ == target_ && !state_wanted_; }
  Epoch epoch() const { return plan_.epoch; }
  const TrainPlan& plan() const { return plan_; }
  uint64_t snapshot_step() const { return snapshot_step_; }
  // Why a pipeline cannot be formed, in words; empty: it can.
  const std::string& why_short() const { return why_short_; }
  // When somebody will be asked to end early if nothing else happens; none: nobody.
  std::optional<double> cut_at() const;
  // Other members without whose report this phase does not end.
  std::vector<TrainMemberId> waiting_for() const;
  const TrainLeadCounters& counters() const { return counters_; }
  size_t size() const { return members_.size(); }  // those that take part now, the leader among them
  double speed(TrainMemberId member) const;        // micro-batches per second; 0: not known yet

 private:
  struct Member {
    TrainPlan::Member row = {};
    double bandwidth = 1;
    uint64_t memory = 0;
    double speed = 0;  // micro-batches per second; of a stage: flops per second
    // Of the phase that runs.
    bool ready = false, leaves_done = false, prepared = false, reported = false;
    std::string hash = {};
  };
  // What an epoch begins with: what its members have; that, and what was just gathered; the last snapshot.
  enum class From { kHere, kState, kSnapshot };

  bool is_owner(TrainMemberId id) const {
    return plan_.shard_of(id) != nullptr || plan_.stage_of(id) < plan_.stages.size();
  }
  // Null, and counted, for reports that are old, or of nobody.
  Member* current(TrainMemberId id, Epoch epoch, uint64_t step, Phase phase);
  void go_on();
  void begin_epoch(From from);
  // False: it does not fit the members.
  bool set_stages(TrainPlan& plan);
  void set_shards(TrainPlan& plan) const;
  std::vector<double> speeds() const;
  std::vector<HeldSlots> hold_slots() const;
  void deal_step();
  void look_at_quorum();
  void gather();
  void end_gather();
  template <typename Test>
  bool all(Test test) const;

  const TrainLeadConfig config_;
  Phase phase_ = Phase::kForming;
  From from_ = From::kHere;  // of the epoch
  uint64_t step_, target_, snapshot_step_, snapshot_every_;
  size_t leaves_ = 1;
  bool state_wanted_ = false;
  std::string why_short_;
  bool plan_is_old_ = false;  // it names a member that was lost since
  TrainPlan plan_;
  std::vector<DealtLeaves> deal_;
  double now_ = 0;
  std::optional<double> quorum_since_;  // of the step that runs
  bool cut_ = false;
  std::map<TrainMemberId, Member> members_;  // take part
  std::map<TrainMemberId, Member> joining_;  // will
  std::vector<TrainLeadAction> actions_;
  TrainLeadCounters counters_;
};

}  // namespace butterfly::cluster
