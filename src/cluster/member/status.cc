#include "cluster/member/status.h"

#include <fmt/format.h>

#include <algorithm>

namespace butterfly::cluster {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string_view phase_name(WorkerPhase phase) {
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

NodeStatus node_status(const Coordinator& coordinator, const Member& member, TimePoint now) {
  const Capabilities& c = member.capabilities;
  const Beat& beat = member.pulse.last();
  NodeStatus row;
  row.name = member.id.name;
  row.key = member.id.key;
  row.state = node_state_name(member.state);
  row.role = !member.here() ? "" : now < member.held_until ? "held back" : "idle";
  row.phase = phase_name(beat.phase);
  row.cpu = c.cpu;
  row.target = c.target;
  row.program = c.program;
  row.address = member.address;
  row.cores = c.cores;
  row.threads = c.threads;
  row.ram_bytes = c.ram_limit_bytes;
  row.ram_free_bytes = beat.ram_free_bytes;
  row.disk_bytes_per_s = c.disk;
  if (const Placement* placement = coordinator.serving_placement()) {
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
    row.rows_per_s = member.rows_per_s;
    row.silent_s = seconds(now - member.pulse.heard_at());
    row.held_s = std::max(0.0, seconds(member.held_until - now));
    row.pending = beat.pending;
    row.clock_ahead_s = member.clock_ahead_s;
    row.load_done = beat.load_done;
    row.load_total = beat.load_total;
    row.steps = beat.steps;
    row.rows = beat.rows;
    row.compute_us = beat.compute_us;
    row.wait_us = beat.wait_us;
    row.wire_us = beat.wire_us;
  }
  const auto link = coordinator.links().find({coordinator.config().self.key, member.id.key});
  if (link != coordinator.links().end()) {
    row.link_rtt_s = link->second.rtt_s;
    row.link_bandwidth = link->second.bandwidth;
  }
  row.last_failure = member.last_failure;
  return row;
}

}  // namespace

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

ClusterStatus status_of(const Coordinator& coordinator, const std::vector<LossForecast>& losses,
                        TimePoint now, int64_t unix_ms, uint64_t events_after, size_t events_max) {
  ClusterStatus status;
  status.model = coordinator.model().name;
  status.model_id = coordinator.model().id;
  status.incarnation = coordinator.config().incarnation;
  status.reason = coordinator.why_not_serving();
  if (const auto phase = coordinator.change_phase()) status.change = change_phase_name(*phase);
  if (const Placement* placement = coordinator.serving_placement()) {
    status.serving = coordinator.connected();
    status.epoch = coordinator.serving_epoch();
    status.plan = plan_number(status.incarnation, status.epoch);
    status.serving_s = seconds(now - coordinator.serving_since());
    status.pieces = placement->pieces;
    status.predicted_tokens_per_s = placement->tokens_per_s;
    for (const StagePlacement& stage : placement->stages) {
      StageStatus row{stage.begin, stage.end, {}};
      for (const StageMember& part : stage.members)
        row.members.push_back(
            {part.node.name, part.node.key, part.share, part.memory_bytes, part.predicted_s});
      status.stages.push_back(std::move(row));
    }
  }
  status.last_failure = coordinator.last_failure();
  status.counters = coordinator.counters();
  for (const auto& [key, member] : coordinator.members()) {
    status.nodes.push_back(node_status(coordinator, member, now));
    for (const LossForecast& loss : losses)
      if (loss.node == member.id && status.nodes.back().begin) status.nodes.back().loss = loss;
  }
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
