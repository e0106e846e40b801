// Who is in the cluster, who is alive, and which jobs run on it: a pure state machine. Time, links, planning
// and the engines are its shell's business; see README.md for how the parts play together.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/member/job.h"
#include "cluster/member/membership.h"

namespace butterfly::cluster {

// Not thread-safe: the shell feeds events from one thread, or under one lock, in the order they happen, and
// carries out take_actions() after each. Never blocks, never throws for what a peer sent.
class Coordinator final : private OtherJobs {
 public:
  Coordinator(CoordinatorConfig config, TimePoint now);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // ---- Events ----
  // The job with this number runs this model from now on; plans follow. An empty id: it ends.
  void set_job(JobId job, ModelTask model, TimePoint now);
  void link_opened(LinkNumber link, const NodeId& peer, TimePoint now);
  void link_closed(LinkNumber link, std::string_view why, TimePoint now);
  void received(LinkNumber link, const ToCoordinator& message, TimePoint now);
  // What came over the link is no message: decode_to_coordinator() said so.
  void received_garbage(LinkNumber link, std::string_view why, TimePoint now);
  // Who opened a link was sent away before it could join: its program does not fit.
  void node_refused(const NodeId& peer, const std::string& why, TimePoint now);
  // The shell's answers are known by their epochs.
  void planned(Epoch epoch, Result<Placement> placement, TimePoint now);
  void steps_paused(Epoch next, TimePoint now);
  // The engine has the chain of this epoch: from now on it is served, and not before.
  void steps_connected(Epoch epoch, TimePoint now);
  // The engine cannot go on in this epoch; `peer` is to blame if it is known.
  void steps_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint now);
  // By name or key. Acts at once. kNotFound; kInvalidArgument for this process's own node or a name that two
  // nodes have.
  Status remove_node(std::string_view name_or_key, TimePoint now);
  // Its parts are moved to others while what is served goes on; then it has none until resume_node(), or
  // until it joins again. Statuses as remove_node(); kNotFound also for one that is away.
  Status drain_node(std::string_view name_or_key, TimePoint now);
  Status resume_node(std::string_view name_or_key, TimePoint now);
  // Nodes, by key, are that much slower than their capabilities say (SlownessWatch), and layers of this job
  // should move for it: a plan is asked for. `why`: for people.
  void set_slowness(JobId job, const std::map<std::string, double>& slowness, const std::string& why,
                    TimePoint now);
  // The process of a node that this machine started has ended: how, and what is done about it. With
  // `for_good` the first plan does not wait for it either.
  void process_ended(const std::string& name, const std::string& how, const std::string& what_follows,
                     bool for_good, TimePoint now);
  // Keys that may never join, as the identity store knows them. All members are told.
  void forbid(const std::string& key);
  // Who else may lead; members that are here, and that come, are told.
  void set_leaders(Leaders leaders);
  void permit(const std::string& key) { removed_.erase(key); }
  // Call about every 50 ms, and after a pause of the process as soon as it goes on.
  void tick(TimePoint now);

  std::vector<CoordinatorAction> take_actions() { return cluster_.take_actions(); }

  // ---- State, for status pages, tests and the shell ----
  const CoordinatorConfig& config() const { return cluster_.config(); }
  const std::map<std::string, Member>& members() const { return cluster_.members(); }  // by key
  const std::map<std::string, RefusedNode>& refused() const { return refused_; }       // by key
  const std::map<Membership::Pair, UnreachablePair>& unreachable() const { return cluster_.unreachable(); }
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  const Job* job(JobId id) const;
  const std::map<Membership::Pair, LinkFigures>& links() const { return cluster_.links(); }
  std::vector<KnownLink> known_links(TimePoint now) const { return cluster_.known_links(now); }
  uint64_t links_changes() const { return cluster_.links_changes(); }
  const CoordinatorCounters& counters() const { return cluster_.counters(); }
  const EventLog& events() const { return cluster_.events(); }

 private:
  struct OpenLink {
    NodeId peer;
    TimePoint opened_at{};
    bool joined = false;
  };

  // Links and joins.
  void join(LinkNumber link, const Join& message, TimePoint now);
  struct Refusal {
    std::string text;  // empty: welcome
    bool forever = false;
  };
  Refusal why_refuse(const NodeId& peer, const Join& message, TimePoint now);
  bool make_room();
  void refuse(LinkNumber link, std::string text, bool forever, TimePoint now);
  void close(LinkNumber link, std::string why);
  void check_links(TimePoint now);
  Member* member_of(LinkNumber link);

  // What members say.
  void handle(Member& member, const Beat& message, TimePoint now);
  void handle(Member& member, const Prepared& message, TimePoint now);
  void handle(Member& member, const Ready& message, TimePoint now);
  void handle(Member& member, const Started& message, TimePoint now);
  void handle(Member& member, const Trouble& message, TimePoint now);
  void handle(Member& member, const LinkReport& message, TimePoint now);
  void handle(Member& member, const Leave& message, TimePoint now);
  void handle(Member& member, const Retire& message, TimePoint now);
  void handle(Member& member, const Join& message, TimePoint now);
  // Null, and counted, for one that does not exist or is not in this epoch.
  Job* job_at(JobId id, Epoch epoch);
  Job* job_at(Epoch epoch);

  // Health.
  void forgive(Duration gap);
  void check_health(TimePoint now);
  Result<Member*> find_one(std::string_view name_or_key);
  void begin_drain(Member& member, const std::string& why, TimePoint now);
  void check_drains(TimePoint now);
  void check_slowness(TimePoint now);
  void lose(Member& member, NodeState state, EventKind kind, const std::string& why, TimePoint now);
  Duration stall_limit(const Member& member) const;

  // Jobs.
  void want_plans(TimePoint at);
  void check_jobs(TimePoint now);
  uint64_t reserved_bytes(JobId asking, bool claims, const NodeId& node) const override;
  std::vector<JobId> without_part(JobId asking, const NodeId& node) const override;
  bool make_room(JobId asking, bool claims, const Placement& placement, TimePoint now) override;

  const TimePoint started_at_;
  Membership cluster_;
  std::map<JobId, Job> jobs_;
  std::map<LinkNumber, OpenLink> links_;
  std::set<std::string> removed_;
  Leaders leaders_;
  std::map<std::string, RefusedNode> refused_;
  TimePoint beat_at_{}, ticked_at_{};
};

}  // namespace butterfly::cluster
