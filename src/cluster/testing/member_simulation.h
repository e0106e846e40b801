// A whole cluster's control plane in one thread, on a virtual clock and a bad network, from one seed: the
// same seed plays the same story. For tests only.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/member/coordinator.h"
#include "cluster/member/worker.h"

namespace butterfly::cluster::testing {

struct SimulationResult {
  std::string problem;  // the first invariant that broke, with its time; empty: all hold
  std::string story;    // the coordinator's events
  // At the end.
  size_t jobs = 0, served = 0;
  size_t could_serve = 0;  // jobs at least
  uint64_t steps = 0;      // done by whole chains
  uint64_t epochs = 0;
  uint64_t halts = 0;
  uint64_t dropped = 0;  // old, unknown or duplicate messages
  std::map<std::string, uint64_t> faults;
  // Without faults: from the last join to the plan that then stays, and from the kill to the next step of
  // every job.
  Duration to_serve{}, to_recover{};
};

// What the chains of a simulation compute for: told when a job's steps begin and end. Every step that begins
// ends once, or is lost with its epoch. A whole engine can stand behind it (runtime/nodes/token_log_test.cc).
class SimulatedEngine {
 public:
  virtual ~SimulatedEngine() = default;
  virtual void began(JobId job) = 0;  // a step
  virtual void ended(JobId job) = 0;
  virtual void lost(JobId job) = 0;       // the chain, with the step under way and all caches
  virtual void restarted(JobId job) = 0;  // the coordinator's process: nothing is known any more
};

struct SimulationOptions {
  size_t nodes_min = 2, nodes_max = 5;
  // Without: the coordinator's own limits, everybody joins within three seconds, and after a while one node
  // with a stage is killed.
  bool faults = true;
  bool hostile = true;  // some members lie
  SimulatedEngine* engine = nullptr;
};

// First a time of faults, then a time of peace in which the cluster must come to serve its jobs, one or two,
// if its nodes have the memory. Processes are real Coordinator and Worker machines; every message is encoded
// and decoded.
class MemberSimulation {
 public:
  explicit MemberSimulation(uint64_t seed, SimulationOptions options = {});
  ~MemberSimulation();
  SimulationResult run();

 private:
  struct Node;
  struct Wire;
  struct JobRun;

  // Random numbers and time.
  uint64_t draw(uint64_t below);
  bool chance(double probability);
  Duration delay(Duration least, Duration most);
  void at(TimePoint when, std::function<void()> what);
  void after(Duration wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }

  // Processes. Both run `what` when the process is not stopped, and not at all in another life of it.
  void in_coordinator(Duration wait, std::function<void()> what);
  void in_node(size_t node, Duration wait, std::function<void()> what);
  void start_coordinator();
  void start_node(size_t node);
  void kill_node(size_t node, bool silently);
  void restart_coordinator();
  void tick_coordinator();
  void tick_node(size_t node);

  // The shells: carry out actions.
  void drive_coordinator();
  void drive_node(size_t node);
  void act(const SendToWorker& action);
  void act(const CloseLink& action);
  void act(const MakePlan& action);
  void act(const PauseSteps& action);
  void act(const HaltSteps& action);
  void act(const ServeSteps& action);
  void act(size_t node, const ConnectToCoordinator& action);
  void act(size_t node, const SendToCoordinator& action);
  void act(size_t node, const CloseWorkerLink& action);
  void act(size_t node, const PrepareWeights& action);
  void act(size_t node, const StopPreparing& action);
  void act(size_t node, const CutOff& action);
  void act(size_t node, const KeepLeaders& action);
  void act(size_t node, const LoadStage& action);
  void act(size_t node, const RunStage& action);
  void act(size_t node, const StopStage& action);
  void act(size_t node, const FreeWeights& action);
  void act(size_t node, const MeasurePeer& action);
  void act(size_t node, const GiveUp& action);

  // The network.
  void deliver(LinkNumber link, bool to_worker, std::vector<std::byte> body);
  void hand_over(LinkNumber link, bool to_worker, const std::vector<std::byte>& body);
  void break_link(LinkNumber link, bool tell_coordinator, bool tell_worker);
  void load_progress(size_t node, const Assignment& work, uint64_t left, Duration each, bool prepare);
  // Whether a link from one node to another can be opened, or carries anything, now.
  bool reaches(size_t from, size_t to) const;

  // Work and faults.
  void issue_step(JobRun& job);
  void step_at(JobRun& job, Epoch epoch, uint64_t step, size_t stage);
  void step_is_lost(JobRun& job, Epoch epoch, uint64_t step, size_t from, const NodeId& to);
  void step_ended(JobRun& job, Epoch epoch, bool done);
  void one_fault();
  void one_lie(size_t node);
  Result<Placement> plan(const PlanQuestion& question) const;
  size_t could_serve() const;
  void end_job(JobRun& job);
  JobRun& run_of(JobId job);
  Epoch served_epoch(JobId job) const;

  void check_overlap(size_t node);
  void check_memory();
  void check_end();
  void run_in_peace();
  void broke(std::string what);
  size_t index_of(const NodeId& id) const;
  bool has_hostile() const;

  const uint64_t seed_;
  const SimulationOptions options_;
  uint64_t draws_ = 0;
  TimePoint now_{};
  TimePoint peace_at_{}, end_at_{};
  std::map<std::pair<TimePoint, uint64_t>, std::function<void()>> queue_;
  uint64_t scheduled_ = 0;
  LinkNumber last_link_ = 0;
  std::map<LinkNumber, std::unique_ptr<Wire>> wires_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t coordinator_life_ = 0;
  TimePoint coordinator_stopped_until_{};
  std::set<std::string> removed_;
  std::map<std::pair<size_t, size_t>, TimePoint> cut_until_;  // between two nodes, one way
  std::vector<std::unique_ptr<JobRun>> jobs_;
  uint64_t steps_in_peace_ = 0, halts_in_peace_ = 0;
  SimulationResult result_;
};

}  // namespace butterfly::cluster::testing
