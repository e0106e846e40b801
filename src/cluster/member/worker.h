// A node's side of the cluster: stays connected, obeys one coordinator, loads and runs what it is told. A
// pure state machine like Coordinator; loading, running and links are its shell's business.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/member/control_message.h"

namespace butterfly::cluster {

struct WorkerConfig {
  uint64_t instance = 0;         // random, drawn at start
  std::string coordinator = {};  // address
  // What it says of itself; `instance` is filled in, and `unix_ms` (the time at the start) moves on.
  Join join = {};
  Duration connect_wait = std::chrono::seconds(10);
  Duration join_wait = std::chrono::seconds(10);
  Duration silent_after =
      std::chrono::seconds(3);  // a coordinator that says nothing; until Welcome says else
  Duration back_off_min = std::chrono::milliseconds(100);
  Duration back_off_max = std::chrono::seconds(5);
};

// ---- What the shell is asked to do, in order. Long ones run elsewhere and answer with an event. ----

// Answer with connected() or connect_failed(), numbered by `attempt`.
struct ConnectToCoordinator {
  std::string address = {};
  uint64_t attempt = 0;
};
struct SendToCoordinator {
  LinkNumber link = 0;
  ToCoordinator message = {};
};
struct CloseWorkerLink {
  LinkNumber link = 0;
  std::string why = {};
};
// Have the weights on disk, and see whether the next stage's node answers. Answer with prepared(). A new one
// takes the place of an older one of the same job.
struct PrepareWeights {
  Assignment work = {};
};
// Nobody wants what is being prepared for this epoch any more. What is on disk stays.
struct StopPreparing {
  JobId job = 0;
  Epoch epoch = 0;
};
// Who else may lead, as the coordinator says. Answer with set_coordinators() when it is believed.
struct KeepLeaders {
  Leaders leaders = {};
};
// These keys were taken out of the cluster: close their links, and let them in no more.
struct CutOff {
  std::vector<std::string> keys = {};
};
// Answer with loaded(). Weights that are in memory already may be used again.
struct LoadStage {
  Assignment work = {};
};
// Link to the next stage and take steps of this epoch. Answer with started().
struct RunStage {
  Assignment work = {};
};
// Stop loading or running this epoch: its steps, cache and links are over. Weights may stay in memory.
struct StopStage {
  JobId job = 0;
  Epoch epoch = 0;
};
// Free weights of this job that are in memory. What is on disk stays.
struct FreeWeights {
  JobId job = 0;
  bool cache_wanted = false;  // other nodes may ask for what its cache holds
};
// Answer with measured().
struct MeasurePeer {
  NodeId peer = {};
  std::string address = {};
};
// The cluster does not want this node; no use in trying again. The last action.
struct GiveUp {
  std::string why = {};
};
using WorkerAction =
    std::variant<ConnectToCoordinator, SendToCoordinator, CloseWorkerLink, PrepareWeights, StopPreparing,
                 CutOff, KeepLeaders, LoadStage, RunStage, StopStage, FreeWeights, MeasurePeer, GiveUp>;

struct WorkerCounters {
  uint64_t old_epochs = 0;     // orders of a plan that is over
  uint64_t incarnations = 0;   // orders of another coordinator
  uint64_t unknown_links = 0;  // messages of links that are closed
  uint64_t connects = 0;
  uint64_t late_reports = 0;  // the shell's answers about an epoch that is over
};

// What the shell knows of the work for one job, as of now. Taken into the next beat.
struct WorkerProgress {
  uint64_t progress = 0;
  uint32_t pending = 0;
  uint64_t load_done = 0, load_total = 0;
  uint64_t steps = 0, rows = 0;
  uint64_t compute_us = 0, wait_us = 0, wire_us = 0;
};

// Not thread-safe; driven like Coordinator.
class Worker {
 public:
  enum class State : uint8_t { kWaiting, kConnecting, kJoining, kJoined, kGivenUp };

  Worker(WorkerConfig config, TimePoint now);

  // ---- Events ----
  void connected(uint64_t attempt, LinkNumber link, TimePoint now);
  void connect_failed(uint64_t attempt, std::string_view why, TimePoint now);
  // The coordinator has this node on its list of the removed: no use in trying again.
  void connect_refused(uint64_t attempt, std::string_view why, TimePoint now);
  void link_closed(LinkNumber link, std::string_view why, TimePoint now);
  void received(LinkNumber link, const ToWorker& message, TimePoint now);
  void received_garbage(LinkNumber link, std::string_view why, TimePoint now);
  // `peer`: the next stage's node, where it is the one that does not answer.
  void prepared(Epoch epoch, const Status& status, const NodeId& peer, TimePoint now);
  void loaded(Epoch epoch, const Status& status, uint64_t bytes, TimePoint now);
  void started(Epoch epoch, const Status& status, TimePoint now);
  // The running stage lost a neighbour.
  void stage_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint now);
  // Where those are that may lead: asked in turn while none answers. Empty: as configured.
  void set_coordinators(std::vector<std::string> addresses) { coordinators_ = std::move(addresses); }
  // This node voted for a coordinator of this number: older ones are over.
  void promised(Incarnation incarnation, TimePoint now);
  void measured(const NodeId& peer, const Result<LinkFigures>& figures, TimePoint now);
  void set_progress(JobId job, const WorkerProgress& progress) { progress_[job] = progress; }
  // What all jobs together could have: see Beat.
  void set_memory(uint64_t ram_free_bytes) { ram_free_bytes_ = ram_free_bytes; }
  void set_machine_load(const MachineLoad& load) { machine_load_ = load; }
  // The process is about to end: asks to have its parts moved away. retired() says when it may.
  void retire(std::string_view why, TimePoint now);
  // The process ends now: says so and closes.
  void leave(std::string_view why, TimePoint now);
  void tick(TimePoint now);  // about every 50 ms

  std::vector<WorkerAction> take_actions();

  // ---- State ----
  State state() const { return state_; }
  // Of the job it is busiest with: running before loading.
  WorkerPhase phase() const;
  Incarnation incarnation() const { return incarnation_; }
  // What it does for one job.
  WorkerPhase phase(JobId job) const;
  Epoch epoch(JobId job) const;             // 0: none
  const Assignment* work(JobId job) const;  // null: none
  // Those it has been told of, whether it has work of them or not.
  std::vector<JobId> jobs() const;
  // Steps of this epoch may be worked on.
  bool may_run(Epoch epoch) const;
  // What its user should know, as the coordinator said last; empty: nothing.
  const std::string& notice() const { return notice_; }
  // How long silence is borne here, as the coordinator said last.
  Duration silent_after() const { return silent_after_; }
  const std::string& last_problem() const { return last_problem_; }
  // After retire(): nothing of the cluster's is here any more, or nothing can be done about it.
  bool retired() const { return retired_; }
  const std::string& why_not_moved() const { return why_not_moved_; }  // empty: all was
  const WorkerCounters& counters() const { return counters_; }

 private:
  void handle(const Welcome& message, TimePoint now);
  void handle(const Refuse& message, TimePoint now);
  void handle(const Alive& message, TimePoint now);
  void handle(const Prepare& message, TimePoint now);
  void handle(const Assign& message, TimePoint now);
  void handle(const Go& message, TimePoint now);
  void handle(const Release& message, TimePoint now);
  void handle(const Measure& message, TimePoint now);
  void handle(const Removed& message, TimePoint now);
  void handle(const Abandon& message, TimePoint now);
  void handle(const Notice& message, TimePoint now);
  void handle(const Retired& message, TimePoint now);
  void handle(const Leaders& message, TimePoint now);
  // What it does for one job: each has a plan of its own.
  struct Work {
    JobId job = 0;
    Epoch newest_epoch = 0;
    WorkerPhase phase = WorkerPhase::kIdle;
    std::optional<Assignment> stage;      // loading, ready or running
    std::optional<Assignment> preparing;  // weights only
    TimePoint load_began{};

    bool has(Epoch epoch) const { return stage && stage->epoch == epoch; }
    bool may_run(Epoch epoch) const { return phase == WorkerPhase::kRunning && has(epoch); }
    bool idle() const { return !stage && !preparing; }
  };
  Work& work_of(JobId job);
  const Work* find(JobId job) const;
  Work* find_stage(Epoch epoch);
  // False, and counted, for another coordinator's or an old plan's order.
  bool obeys(const Work& work, Incarnation incarnation, Epoch epoch);
  void disconnected(std::string why, TimePoint now);
  void give_up(const std::string& why);
  void stop_preparing(Work& work);
  void stop_stage(Work& work);
  JobBeat beat_of(const Work& work) const;
  void send(ToCoordinator message);
  void beat(TimePoint now);
  Duration back_off() const;
  const std::string& coordinator() const;

  const WorkerConfig config_;
  const TimePoint started_at_;
  State state_ = State::kWaiting;
  TimePoint since_{};  // of this state
  TimePoint connect_at_{};
  uint64_t attempt_ = 0;
  uint32_t failures_ = 0;  // since it was last joined
  LinkNumber link_ = 0;
  Incarnation incarnation_ = 0;
  std::map<JobId, Work> works_;  // at most kJobsMax: messages name no others
  TimePoint heard_at_{}, beat_at_{}, ticked_at_{};
  Duration beat_every_ = std::chrono::milliseconds(250);
  Duration silent_after_;
  std::map<JobId, WorkerProgress> progress_;
  uint64_t ram_free_bytes_ = 0;
  MachineLoad machine_load_;
  std::vector<std::string> coordinators_;
  std::string last_problem_, notice_;
  std::optional<std::string> retires_;  // why
  bool retired_ = false;
  std::string why_not_moved_;
  WorkerCounters counters_;
  std::vector<WorkerAction> actions_;
};

}  // namespace butterfly::cluster
