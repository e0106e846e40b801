// The state of a cluster for people and programs: what `status` prints and the JSON endpoint sends. The form
// of the JSON is documented in docs/cluster.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/member/coordinator.h"
#include "cluster/member/loss_forecast.h"

namespace butterfly::cluster {

// "idle", "preparing", "loading", "ready", "running".
std::string_view worker_phase_name(WorkerPhase phase);

// What a node does for one job.
struct NodeJobStatus {
  JobId job = 0;
  std::string role = {};                         // "stage 2 of 3"; empty: it has no part in what is served
  std::string phase = {};                        // "idle", "preparing", "loading", "ready", "running"
  std::optional<uint32_t> begin = {}, end = {};  // pieces, of the plan that is served
  uint64_t stage_bytes = 0;
  double predicted_s = 0;  // of a decode step
  uint64_t load_done = 0, load_total = 0;
  uint64_t steps = 0, rows = 0, compute_us = 0, wait_us = 0, wire_us = 0;  // since the stage started
  uint32_t pending = 0;
  std::optional<LossForecast> loss = {};  // if it has a stage
};

struct NodeStatus {
  std::string name, key;
  std::string state = {};  // "up", "suspect", "dead", "left", "removed"
  std::string cpu, target, program, address;
  uint32_t cores = 0, threads = 0;
  uint64_t ram_bytes = 0, ram_free_bytes = 0;
  double disk_bytes_per_s = 0;  // read; 0: not measured
  double rows_per_s = 0;        // worked on now, for all jobs
  double busy = 0;              // share of the last seconds in which its stages computed
  MachineLoad machine = {};
  double slowness = 1;  // everything takes so many times as long as was measured: what plans take it for
  double link_rtt_s = 0, link_bandwidth = 0;  // to the coordinator's node; 0: not measured, or itself
  double clock_ahead_s = 0;                   // of the coordinator's
  double silent_s = 0;                        // since its last beat
  double held_s = 0;                          // left out of plans for so long
  std::string last_failure = {};
  std::string drain = {};                // "moving" its parts away, "done"; empty: it is not drained
  std::string why_not_drained = {};      // nothing fits without it
  std::vector<NodeJobStatus> jobs = {};  // of every job, whether it has a part of it or not

  // It has a part in something that is served.
  bool has_stage() const;
  // For people: "stage 2 of 3" of the first job that it has a part of, "idle", "held back", "drained"; "":
  // not here.
  std::string role() const;
};

// A stage of the plan that is served, and who has a part of it.
struct StageStatus {
  uint32_t begin = 0, end = 0;  // pieces
  struct Member {
    std::string name, key;
    Share share = {};
    uint64_t bytes = 0;
    double predicted_s = 0;  // of a decode step
  };
  std::vector<Member> members = {};
};

struct LinkStatus {
  std::string from, to;  // names
  LinkFigures figures = {};
};

struct UnreachableStatus {
  std::string from, to;  // names
  std::string address, why;
  double ago_s = 0;
};

struct RefusedStatus {
  std::string name, key, why;
  uint64_t times = 0;
  double ago_s = 0;
};

struct EventStatus {
  uint64_t number = 0;
  int64_t unix_ms = 0;
  std::string kind, node, text;
  uint64_t plan = 0;
};

// One thing that the cluster runs.
struct JobStatus {
  JobId id = 0;
  std::string model, model_id;
  bool serving = false;
  std::string reason = {};  // why not
  std::string change = {};  // phase of a plan on its way; empty: none
  uint64_t plan = 0;        // being served
  Epoch epoch = 0;
  double serving_s = 0;
  uint32_t pieces = 0;
  double predicted_tokens_per_s = 0;
  std::string words = {};  // why the plan is as it is
  std::string last_failure = {};
  // Since the start: rows that were computed again because plans changed, and that times the layers they
  // passed.
  uint64_t rows_again = 0, row_layers_again = 0;
  uint64_t moves_sent = 0, moves_computed = 0, moved_bytes = 0;
  std::vector<StageStatus> stages = {};  // of the plan that is served
};

// Who leads, and who else may: of a cluster that has, or shall have, a standby.
struct LeadStatus {
  struct Seat {
    std::string name, key;
    std::string role;      // "leads", "standby", "witness"
    bool journal = false;  // a standby: it has all of it
  };
  uint64_t term = 0;
  bool by_majority = false;               // a standby takes over by itself; else a person says so
  std::vector<Seat> seats = {};           // who leads first; empty before all that were asked for have joined
  std::vector<std::string> missing = {};  // asked for, and never joined
};

struct ClusterStatus {
  std::vector<JobStatus> jobs = {};
  Incarnation incarnation = 0;
  std::optional<LeadStatus> lead = {};
  std::string caution = {};            // what is to be known of the way that rows take; empty: nothing
  std::vector<NodeStatus> nodes = {};  // the coordinator's first, then by name
  std::vector<UnreachableStatus> unreachable = {};
  std::vector<RefusedStatus> refused = {};  // the latest first
  std::vector<LinkStatus> links = {};
  CoordinatorCounters counters = {};
  std::vector<EventStatus> events = {};  // oldest first

  // All jobs in the words for one. Every one is served, and there is one.
  bool serving() const;
  std::string reason() const;        // why not, of the first that is not
  std::string models() const;        // their names: "one, two"
  std::string last_failure() const;  // of the first job that had one
};

// `unix_ms` is the time of day at `now`. Events with numbers above `events_after`, the last `events_max` of
// them.
ClusterStatus status_of(const Coordinator& coordinator,
                        const std::map<JobId, std::vector<LossForecast>>& losses, TimePoint now,
                        int64_t unix_ms, uint64_t events_after = 0, size_t events_max = 100);

std::vector<EventStatus> events_of(const Coordinator& coordinator, TimePoint now, int64_t unix_ms,
                                   uint64_t events_after, size_t events_max);

// Where a server that coordinates answers, on its management socket: GET the status (?after=N: only events
// with larger numbers); POST {"node": "name or key"} to remove one; GET events, one JSON per line, as they
// come.
inline constexpr const char* kStatusPath = "/manage/cluster";
inline constexpr const char* kRemovePath = "/manage/cluster/remove";
// POST {"node": …} as well.
inline constexpr const char* kDrainPath = "/manage/cluster/drain";
inline constexpr const char* kResumePath = "/manage/cluster/resume";
inline constexpr const char* kEventsPath = "/manage/cluster/events";

inline constexpr const char* kLoadPath = "/manage/cluster/load";

std::string to_json(const ClusterStatus& status);
// How busy the nodes were in the last hour (Member::load).
std::string load_json(const Coordinator& coordinator, TimePoint now, int64_t unix_ms);
std::string to_json(const EventStatus& event);  // one line, for streams
// What to_json() wrote; fields that are missing keep their defaults. kCorrupt.
Result<ClusterStatus> parse_status(std::string_view json);

}  // namespace butterfly::cluster
