// One thing that the cluster runs: a model that is served, a training run. Where its parts are, and how they
// get there.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/member/membership.h"

namespace butterfly::cluster {

enum class ChangePhase : uint8_t { kPlanning, kPreparing, kPausing, kLoading, kStarting };
std::string_view change_phase_name(ChangePhase phase);

// What a job must know of the others. As thread-safe as who answers.
class OtherJobs {
 public:
  virtual ~OtherJobs() = default;
  // That they have reserved on a node, and do not give up for the one that asks. `claims`: it has tried to do
  // without for a while.
  virtual uint64_t reserved_bytes(JobId asking, bool claims, const NodeId& node) const = 0;
  // Those that have reserved nothing there: what is left of them may go.
  virtual std::vector<JobId> without_part(JobId asking, const NodeId& node) const = 0;
  // The parts of this plan are about to be loaded: those whose memory it takes give way first. True: there
  // was one.
  virtual bool make_room(JobId asking, bool claims, const Placement& placement, TimePoint now) = 0;
};

// A phase machine: planning, preparing, pausing, loading, starting, serving (README.md). Every phase ends by
// a report of every node, a loss, or a deadline. What goes wrong in one job is told to the others only where
// it is a fact about a node or a pair. Not thread-safe: of the Coordinator, which feeds it; borrows all but
// the model.
class Job {
 public:
  Job(JobId id, ModelTask model, Membership& cluster, OtherJobs& others, TimePoint now);

  // ---- Events ----
  void set_model(ModelTask model, TimePoint now);
  // The job is over: its nodes are told. The last event.
  void end(TimePoint now);
  // Its memory is wanted by one that goes before it: it is halted, its nodes free what they have of it, and a
  // plan is looked for in what is left.
  void give_way(const std::string& why, TimePoint now);
  void planned(Epoch epoch, Result<Placement> placement, TimePoint now);
  void steps_paused(Epoch next, TimePoint now);
  void steps_connected(Epoch epoch, TimePoint now);
  void prepared(Member& member, const Prepared& message, TimePoint now);
  void ready(Member& member, const Ready& message, TimePoint now);
  void started(Member& member, const Started& message, TimePoint now);
  // `reporter` says that it has trouble with `peer`, whose key is empty where that is not known.
  void trouble(Epoch epoch, const NodeId& reporter, const NodeId& peer, const std::string& why,
               TimePoint now);
  // The node is gone; `dead`: not on purpose.
  void node_lost(const Member& member, bool dead, const std::string& why, TimePoint now);
  // It was started again: what its process could not load before says nothing of this one.
  void node_started(const NodeId& node) { holds_.erase(node.key); }
  // The process of a local node ended: for people.
  void set_last_failure(std::string text) { last_failure_ = std::move(text); }
  // A node that it uses is being drained: another plan is wanted, be it slower or not.
  void move_away(TimePoint now);
  // Another plan may be better, not before then.
  void want_plan(TimePoint at);
  // A plan is wanted and its time has come; one job plans at a time, since each needs to know what the others
  // have.
  bool may_plan(TimePoint now) const;
  void begin_change(bool with_held, TimePoint now);
  // Another job needs a plan more urgently: this one's is asked for again afterwards.
  void postpone_planning(TimePoint now);
  // Deadlines, and nodes that may be tried again.
  void tick(TimePoint now);
  // The coordinator's process stood still for so long.
  void forgive(Duration gap);

  // ---- State ----
  JobId id() const { return id_; }
  const ModelTask& model() const { return model_; }
  bool has_epoch(Epoch epoch) const;  // of what is served, or of the change
  // The plan that holds. Its stages run, but the engine may still be about to connect to them: connected().
  Epoch serving_epoch() const { return serving_ ? serving_->epoch : 0; }
  bool connected() const { return serving_ && serving_->connected; }
  const Placement* serving_placement() const { return serving_ ? &serving_->placement : nullptr; }
  TimePoint serving_since() const { return serving_ ? serving_->since : TimePoint{}; }
  std::optional<ChangePhase> change_phase() const;
  const Placement* change_placement() const;  // from kPreparing on
  // Why nothing is served; empty while something is.
  std::string why_not_serving() const;
  const std::string& last_failure() const { return last_failure_; }
  // The question a plan would answer now.
  PlanQuestion question(TimePoint now, bool with_held = true) const;
  // In what is served, or will be.
  bool has_part(const NodeId& node) const;
  // Memory that its parts on this node have, or will have.
  uint64_t reserved_bytes(const NodeId& node) const;
  // How long its work on this node may stand still.
  Duration stall_limit(const Member& member) const;
  // It was looked for another plan than the one that is served, and there is none: why. Empty: there may be.
  std::string why_no_other_plan() const { return serving_ && !change_ && !plan_at_ ? why_no_other_ : ""; }
  // Left out of its plans: until then. Zero: not by this job.
  TimePoint held_until(const NodeId& node) const;

 private:
  struct Serving {
    Epoch epoch = 0;
    Placement placement;
    TimePoint since{};
    bool connected = false;
  };
  struct Change {
    Epoch epoch = 0;
    ChangePhase phase = ChangePhase::kPlanning;
    TimePoint began_at{};  // this phase
    bool with_held = false;
    bool claims = false;          // memory of later jobs
    std::set<std::string> asked;  // keys in the question
    Placement placement;
    std::set<std::string> waiting_for;  // keys whose report is due
  };

  bool may_use(const Member& member, bool with_held, TimePoint now) const;
  void cancel_change();
  bool failed_too(const Member& member, Epoch epoch);
  void give_up_change(const std::string& why, const std::string& node, TimePoint now);
  void no_plan(const Status& why, TimePoint now);
  Duration retry_delay() const;
  bool claims_room() const;
  void begin_phase(ChangePhase phase, TimePoint now);
  void begin_loading(TimePoint now);
  void begin_starting(TimePoint now);
  void serve(TimePoint now);
  void say_serve();
  void halt(const std::string& why, TimePoint now);
  void reported(Member& member, Epoch epoch, ChangePhase phase, Errc code, const std::string& text,
                TimePoint now);
  void check_deadline(TimePoint now);
  void release_others(Epoch epoch, const Placement* placement);
  bool names_cut(Epoch epoch, const NodeId& reporter, const NodeId& peer);
  void note_cut(const NodeId& reporter, const NodeId& peer, const std::string& why, TimePoint now);
  void hold(Member& member, const std::string& why, TimePoint now);
  bool uses_drained(const Placement& placement) const;
  std::vector<Assignment> assignments() const;
  Assignment assignment(size_t stage, size_t member) const;
  void add_holders(Assignment& work) const;

  const JobId id_;
  ModelTask model_;
  Membership& cluster_;
  OtherJobs& others_;
  TimePoint model_at_{};
  std::optional<Serving> serving_;
  // What was served last, and who has said why it broke.
  struct Halted {
    Epoch epoch = 0;
    Placement placement = {};
    std::set<std::string> heard = {};
  };
  std::optional<Halted> halted_;
  Placement before_;  // what was served last; empty: nothing, or it is of another model
  std::optional<Change> change_;
  std::optional<Change> given_up_;    // the last one
  std::optional<TimePoint> plan_at_;  // a plan is wanted, and not before then
  uint32_t attempts_ = 0;             // that failed since something was served for a while
  uint32_t without_plan_ = 0;         // attempts that found none, one after the other
  uint32_t claims_ = 0;               // of later jobs' memory, since something was served for a while
  bool ever_served_ = false;
  std::string why_waiting_, last_failure_, why_no_other_;
  std::map<std::string, Hold> holds_;  // nodes that could not load or start it, by key
};

}  // namespace butterfly::cluster
