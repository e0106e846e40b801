#include "cluster/member/status.h"

#include <fmt/format.h>

#include <algorithm>

namespace butterfly::cluster {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

using Losses = std::map<JobId, std::vector<LossForecast>>;

NodeJobStatus node_job_status(const Job& job, const Member& member, const Losses& losses) {
  const JobBeat& beat = member.pulse.last(job.id());
  NodeJobStatus row;
  row.job = job.id();
  row.phase = worker_phase_name(beat.phase);
  if (const Placement* placement = job.serving_placement()) {
    for (size_t i = 0; i < placement->stages.size(); ++i) {
      const StagePlacement& stage = placement->stages[i];
      const StageMember* part = stage.find(member.id);
      if (part == nullptr) continue;
      row.role = fmt::format("stage {} of {}", i + 1, placement->stages.size());
      row.begin = stage.begin;
      row.end = stage.end;
      row.stage_bytes = part->memory_bytes;
      row.predicted_s = part->predicted_s;
    }
  }
  if (member.here()) {
    row.pending = beat.pending;
    row.load_done = beat.load_done;
    row.load_total = beat.load_total;
    row.steps = beat.steps;
    row.rows = beat.rows;
    row.compute_us = beat.compute_us;
    row.wait_us = beat.wait_us;
    row.wire_us = beat.wire_us;
  }
  if (const auto forecast = losses.find(job.id()); forecast != losses.end() && row.begin)
    for (const LossForecast& loss : forecast->second)
      if (loss.node == member.id) row.loss = loss;
  return row;
}

NodeStatus node_status(const Coordinator& coordinator, const Member& member, const Losses& losses,
                       TimePoint now) {
  const Capabilities& c = member.capabilities;
  NodeStatus row;
  row.name = member.id.name;
  row.key = member.id.key;
  row.state = node_state_name(member.state);
  TimePoint held_until = member.hold.until;
  for (const auto& [id, job] : coordinator.jobs())
    held_until = std::max(held_until, job.held_until(member.id));
  row.cpu = c.cpu;
  row.target = c.target;
  row.program = c.program;
  row.address = member.address;
  row.cores = c.cores;
  row.threads = c.threads;
  row.ram_bytes = c.ram_limit_bytes;
  row.ram_free_bytes = member.pulse.last().ram_free_bytes;
  row.disk_bytes_per_s = c.disk;
  if (member.here()) {
    row.rows_per_s = member.rows_per_s;
    row.busy = member.busy;
    if (member.drain != Member::Drain::kNo)
      row.drain = member.drain == Member::Drain::kMoving ? "moving" : "done";
    row.why_not_drained = member.why_not_drained;
    row.machine = member.pulse.last().machine;
    row.slowness = member.slowness;
    row.silent_s = seconds(now - member.pulse.heard_at());
    row.held_s = std::max(0.0, seconds(held_until - now));
    row.clock_ahead_s = member.clock_ahead_s;
  }
  for (const auto& [id, job] : coordinator.jobs()) row.jobs.push_back(node_job_status(job, member, losses));
  const auto link = coordinator.links().find({coordinator.config().self.key, member.id.key});
  if (link != coordinator.links().end()) {
    row.link_rtt_s = link->second.rtt_s;
    row.link_bandwidth = link->second.bandwidth;
  }
  row.last_failure = member.last_failure;
  return row;
}

JobStatus job_status(const Job& job, Incarnation incarnation, TimePoint now) {
  JobStatus row;
  row.id = job.id();
  row.model = job.model().name;
  row.model_id = job.model().id;
  row.reason = job.why_not_serving();
  if (const auto phase = job.change_phase()) row.change = change_phase_name(*phase);
  row.last_failure = job.last_failure();
  const Placement* placement = job.serving_placement();
  if (placement == nullptr) return row;
  row.serving = job.connected();
  row.epoch = job.serving_epoch();
  row.plan = plan_number(incarnation, row.epoch);
  row.serving_s = seconds(now - job.serving_since());
  row.pieces = placement->pieces;
  row.predicted_tokens_per_s = placement->tokens_per_s;
  row.words = placement->words;
  for (const StagePlacement& stage : placement->stages) {
    StageStatus part{stage.begin, stage.end, {}};
    for (const StageMember& member : stage.members)
      part.members.push_back(
          {member.node.name, member.node.key, member.share, member.memory_bytes, member.predicted_s});
    row.stages.push_back(std::move(part));
  }
  return row;
}

}  // namespace

bool NodeStatus::has_stage() const {
  return std::ranges::any_of(jobs, [](const NodeJobStatus& job) { return job.begin.has_value(); });
}

std::string NodeStatus::role() const {
  for (const NodeJobStatus& job : jobs)
    if (job.begin) return drain.empty() ? job.role : job.role + ", draining";
  if (state != node_state_name(NodeState::kUp) && state != node_state_name(NodeState::kSuspect)) return "";
  return !drain.empty() ? "drained" : held_s > 0 ? "held back" : "idle";
}

bool ClusterStatus::serving() const {
  return !jobs.empty() && std::ranges::all_of(jobs, &JobStatus::serving);
}

std::string ClusterStatus::reason() const {
  if (jobs.empty()) return "no model is chosen";
  for (const JobStatus& job : jobs)
    if (!job.serving) return jobs.size() == 1 ? job.reason : fmt::format("{}: {}", job.model, job.reason);
  return "";
}

std::string ClusterStatus::models() const {
  std::string names;
  for (const JobStatus& job : jobs) names += (names.empty() ? "" : ", ") + job.model;
  return names;
}

std::string ClusterStatus::last_failure() const {
  for (const JobStatus& job : jobs)
    if (!job.last_failure.empty()) return job.last_failure;
  return "";
}

std::string_view worker_phase_name(WorkerPhase phase) {
  switch (phase) {
    case WorkerPhase::kIdle:
      return "idle";
    case WorkerPhase::kPreparing:
      return "preparing";
    case WorkerPhase::kLoading:
      return "loading";
    case WorkerPhase::kReady:
      return "ready";
    case WorkerPhase::kRunning:
      return "running";
  }
  return "unknown";
}

std::vector<EventStatus> events_of(const Coordinator& coordinator, TimePoint now, int64_t unix_ms,
                                   uint64_t events_after, size_t events_max) {
  const uint64_t last = coordinator.events().last_number();
  const uint64_t after = last > events_max ? std::max(events_after, last - events_max) : events_after;
  std::vector<EventStatus> out;
  for (const ClusterEvent& event : coordinator.events().since(after, events_max)) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(now - event.at).count();
    out.push_back({event.number, unix_ms - ago, std::string(event_name(event.kind)), event.node, event.text,
                   plan_number(coordinator.config().incarnation, event.epoch)});
  }
  return out;
}

ClusterStatus status_of(const Coordinator& coordinator, const Losses& losses, TimePoint now, int64_t unix_ms,
                        uint64_t events_after, size_t events_max) {
  ClusterStatus status;
  status.incarnation = coordinator.config().incarnation;
  for (const auto& [id, job] : coordinator.jobs())
    status.jobs.push_back(job_status(job, status.incarnation, now));
  status.counters = coordinator.counters();
  for (const auto& [key, member] : coordinator.members())
    status.nodes.push_back(node_status(coordinator, member, losses, now));
  for (const auto& [pair, row] : coordinator.unreachable())
    status.unreachable.push_back({row.from.name, row.to.name, row.address, row.why, seconds(now - row.at)});
  for (const auto& [key, row] : coordinator.refused())
    status.refused.push_back({row.id.name, key, row.why, row.times, seconds(now - row.last)});
  std::ranges::stable_sort(status.refused, {}, &RefusedStatus::ago_s);
  const std::string& self = coordinator.config().self.key;
  std::stable_sort(status.nodes.begin(), status.nodes.end(), [&](const NodeStatus& a, const NodeStatus& b) {
    return std::pair(a.key != self, a.name) < std::pair(b.key != self, b.name);
  });
  for (const auto& [pair, figures] : coordinator.links()) {
    const auto from = coordinator.members().find(pair.first), to = coordinator.members().find(pair.second);
    if (from != coordinator.members().end() && to != coordinator.members().end())
      status.links.push_back({from->second.id.name, to->second.id.name, figures});
  }
  status.events = events_of(coordinator, now, unix_ms, events_after, events_max);
  return status;
}

}  // namespace butterfly::cluster
