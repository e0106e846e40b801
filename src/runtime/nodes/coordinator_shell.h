// Drives the cluster's state machine (cluster::Coordinator) with a real clock, real links and the engine.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/identity/roster.h"
#include "cluster/member/coordinator.h"
#include "cluster/member/slowness_watch.h"
#include "cluster/member/status.h"
#include "runtime/nodes/control_links.h"
#include "runtime/nodes/job_steps.h"

namespace butterfly::runtime {

// One thread decides; plans are made and stages connected on others. Jobs come and go at any time.
class CoordinatorShell {
 public:
  // How one job is planned and run.
  struct JobOptions {
    cluster::ModelTask model;
    cluster::PlanFunction plan;
    JobSteps* steps = nullptr;  // borrowed until end_job() or stop()
    // Whether layers should move, given how slow nodes are (SlownessWatch); on one thread. Null: they stay.
    struct Balance {
      bool move = false;
      std::map<std::string, double> slowness;
      std::string reason;
    };
    std::function<Balance(const cluster::PlanQuestion& question,
                          const std::map<std::string, double>& slowness, double now_s)>
        balance = {};
  };
  struct Options {
    cluster::CoordinatorConfig config;
    std::shared_ptr<cluster::Roster> roster;  // may be null
    // Keeps measured links for the next start, on a thread of its own; may be null.
    std::function<void(std::vector<cluster::KnownLink>)> keep_links;
    std::function<void(const std::string& key)> cut_off;  // closes all links of a removed node; may be null
    std::function<void(const cluster::EventStatus&)>
        event;  // for streams; on the shell's thread; may be null
  };
  explicit CoordinatorShell(Options options);
  ~CoordinatorShell();  // stop()

  void start();
  void stop();

  // From now on, or from start() on; the number must be free. From any thread but the shell's own.
  void add_job(cluster::JobId id, JobOptions options);
  // Its steps are halted and its nodes told to free what they have of it. When this returns, nobody uses what
  // its options borrow; that may take as long as a plan. False: there is no such job.
  bool end_job(cluster::JobId id);

  // A link on which a node will join.
  void accept(std::unique_ptr<cluster::Link> link);
  Status remove_node(const std::string& name_or_key);
  // As Coordinator::drain_node() and resume_node().
  Status drain_node(const std::string& name_or_key);
  Status resume_node(const std::string& name_or_key);
  // As Coordinator::forbid().
  void forbid(const std::string& key);
  // As Coordinator::set_leaders().
  void set_leaders(cluster::Leaders leaders);
  // As Coordinator::steps_failed().
  void steps_failed(cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why);
  // As Coordinator::node_refused().
  void node_refused(const cluster::NodeId& peer, const std::string& why);
  // As Coordinator::process_ended().
  void process_ended(const std::string& name, const std::string& how, const std::string& what_follows,
                     bool for_good);
  cluster::ClusterStatus status(uint64_t events_after = 0, size_t events_max = 100) const;
  std::vector<cluster::EventStatus> events(uint64_t after, size_t count_max) const;
  // As cluster::load_json().
  std::string load_json() const;

  // True when steps of a job are served; false, with the first one's reason, at the deadline or when
  // `cancelled` says so.
  bool wait_until_serving(Duration timeout, const std::function<bool()>& cancelled, std::string& why) const;

 private:
  static constexpr Duration kNever = std::chrono::hours(1);  // loops that only work need no tick

  // What happens to the machine, at a time. `feed` is for the loop's thread, post_event() for others.
  using Event = std::function<void(cluster::Coordinator& machine, TimePoint at)>;
  void feed(const Event& event);
  void post_event(Event event);
  void tick();
  void act();
  void perform(cluster::SendToWorker action);
  void perform(cluster::CloseLink action);
  void perform(cluster::MakePlan action);
  void perform(cluster::PauseSteps action);
  void perform(cluster::HaltSteps action);
  void perform(cluster::ServeSteps action);
  void received(cluster::LinkNumber link, const cluster::Message& message);
  // A job, the chain it has, and who plans and connects it: what takes long for one holds up no other.
  struct RunningJob {
    RunningJob(cluster::JobId number, JobOptions job_options)
        : id(number), options(std::move(job_options)), planner([] {}, kNever), chains([] {}, kNever) {}
    const cluster::JobId id;
    const JobOptions options;
    // Of the chain that is connected, or about to be; 0: none. Of the shell's thread.
    cluster::Epoch chain_epoch = 0;
    bool ended = false;  // of the shell's thread, too
    cluster::SlownessWatch slowness;
    bool balancing = false;  // its answer is due
    EventLoop planner, chains;
  };
  using JobPtr = std::shared_ptr<RunningJob>;
  const JobPtr& run_of(cluster::JobId job) { return jobs_.at(job); }
  std::vector<JobPtr> all_jobs() const;
  void planned(const JobPtr& job, cluster::Epoch epoch, Result<cluster::Placement> placement);
  void look_at_disk();
  void look_at_roster();
  void keep_links();
  void forecast(const JobPtr& job);
  void look_at_balance();
  void tell_events();

  Options options_;
  cluster::Coordinator machine_;  // with machine_mutex_: the loop changes it, others read
  mutable std::mutex machine_mutex_;
  mutable std::condition_variable changed_;
  std::map<cluster::JobId, std::vector<cluster::LossForecast>> losses_;  // with machine_mutex_
  uint64_t last_event_ = 0;
  TimePoint balance_at_{};                 // of the shell's thread
  std::atomic<uint64_t> plans_wanted_{0};  // a forecast that began before the last one is given up
  std::atomic<bool> stopped_{false};
  uint64_t links_kept_ = 0;  // changes of links that are on disk; of the disk's loop
  EventLoop loop_, forecaster_, disk_;
  // The shell's thread changes it, with machine_mutex_, and reads it without.
  std::map<cluster::JobId, JobPtr> jobs_;
  ControlLinks links_;
};

}  // namespace butterfly::runtime
