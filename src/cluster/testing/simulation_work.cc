// The network between the processes, the steps of the jobs, and what must hold.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/testing/simulation_parts.h"

namespace butterfly::cluster::testing {

// ---- The network ----

void MemberSimulation::deliver(LinkNumber link, bool to_worker, std::vector<std::byte> body) {
  const auto found = wires_.find(link);
  if (found == wires_.end()) return;
  Wire& wire = *found->second;
  const Node& n = *nodes_[wire.node];
  const bool faults = now_ < peace_at_;
  TimePoint when = now_ + delay(milliseconds(0), milliseconds(faults && chance(0.05) ? 800 : 10));
  // Packets to a node that is cut off are sent again and again, and arrive when it is back.
  if (n.cut_off_until > now_) when = std::max(when, n.cut_off_until);
  TimePoint& last = to_worker ? wire.last_to_worker : wire.last_to_coordinator;
  const bool in_order = !faults || !chance(0.03);
  if (in_order) last = when = std::max(when, last);
  const int copies = faults && chance(0.01) ? 2 : 1;
  if (!in_order) ++result_.faults["reordered"];
  if (copies == 2) ++result_.faults["duplicated"];
  for (int copy = 0; copy < copies; ++copy)
    at(when, [this, link, to_worker, body] { hand_over(link, to_worker, body); });
}

void MemberSimulation::hand_over(LinkNumber link, bool to_worker, const std::vector<std::byte>& body) {
  const auto found = wires_.find(link);
  if (found == wires_.end()) return;
  const Wire& wire = *found->second;
  if (to_worker) {
    if (!wire.open_at_worker || nodes_[wire.node]->life != wire.node_life) return;
    in_node(wire.node, Duration{}, [this, node = wire.node, link, body] {
      Result<ToWorker> message = decode_to_worker(body);
      if (!message.ok()) return broke(message.status().text());
      nodes_[node]->worker->received(link, *message, now_);
    });
  } else {
    if (!wire.open_at_coordinator || coordinator_life_ != wire.coordinator_life) return;
    in_coordinator(Duration{}, [this, link, body, hostile = nodes_[wire.node]->hostile] {
      Result<ToCoordinator> message = decode_to_coordinator(body);
      if (!message.ok() && hostile)
        return coordinator_->received_garbage(link, message.status().text(), now_);
      if (!message.ok()) return broke(message.status().text());
      coordinator_->received(link, *message, now_);
    });
  }
}

// Who is told hears of it in order with what was sent before.
void MemberSimulation::break_link(LinkNumber link, bool tell_coordinator, bool tell_worker) {
  const auto found = wires_.find(link);
  if (found == wires_.end()) return;
  Wire& wire = *found->second;
  const TimePoint arrival =
      std::max(now_ + delay(milliseconds(1), milliseconds(20)), nodes_[wire.node]->cut_off_until);
  if (!tell_coordinator) wire.open_at_coordinator = false;
  if (!tell_worker) wire.open_at_worker = false;
  if (tell_worker && wire.open_at_worker)
    at(std::max(arrival, wire.last_to_worker), [this, link] {
      Wire& w = *wires_.at(link);
      if (!std::exchange(w.open_at_worker, false) || nodes_[w.node]->life != w.node_life) return;
      in_node(w.node, Duration{},
              [this, node = w.node, link] { nodes_[node]->worker->link_closed(link, "closed", now_); });
    });
  if (tell_coordinator && wire.open_at_coordinator)
    at(std::max(arrival, wire.last_to_coordinator), [this, link] {
      Wire& w = *wires_.at(link);
      if (!std::exchange(w.open_at_coordinator, false) || coordinator_life_ != w.coordinator_life) return;
      in_coordinator(Duration{}, [this, link] { coordinator_->link_closed(link, "closed", now_); });
    });
}

// ---- Work ----

void MemberSimulation::issue_step(JobRun& job) {
  if (job.epoch == 0 || job.in_flight || job.pause_for != 0) return;
  if (served_epoch(job.id) != job.epoch) broke("a step of an epoch that is not served");
  job.in_flight = true;
  if (options_.engine != nullptr) options_.engine->began(job.id);
  const Epoch epoch = job.epoch;
  const uint64_t step = ++job.step;
  after(milliseconds(1), [this, &job, epoch, step] { step_at(job, epoch, step, 0); });
  in_coordinator(kStepDeadline, [this, &job, epoch, step] {
    if (job.epoch == epoch && job.step == step && job.in_flight)
      coordinator_->steps_failed(epoch, {}, "a step does not end", now_);
  });
}

void MemberSimulation::step_at(JobRun& job, Epoch epoch, uint64_t step, size_t stage) {
  if (job.epoch != epoch || job.step != step) return;  // over
  if (stage == job.placement.stages.size()) {
    ++result_.steps;
    ++job.steps;
    job.step_at = now_;
    if (job.stepped_at == TimePoint{} && epoch > job.killed_epoch) job.stepped_at = now_;
    return in_coordinator(Duration{}, [this, &job, epoch] { step_ended(job, epoch, true); });
  }
  const auto again = [this, &job, epoch, step, stage] { step_at(job, epoch, step, stage); };
  const NodeId id = job.placement.stages[stage].first();
  const size_t node = index_of(id);
  Node& n = *nodes_[node];
  const size_t from = stage == 0 ? 0 : index_of(job.placement.stages[stage - 1].first());
  if (from != SIZE_MAX && cut_until_.contains({from, node}) && cut_until_.at({from, node}) > now_)
    return step_is_lost(job, epoch, step, from, id);
  if (n.cut_off_until > now_) return at(n.cut_off_until, again);
  if (!n.worker || !n.worker->may_run(epoch)) {
    // Often the engine sees the lost link; if not, health or the step's deadline must find out.
    if (chance(0.5))
      in_coordinator(milliseconds(5), [this, epoch, id] {
        coordinator_->steps_failed(epoch, id, "the chain is broken", now_);
      });
    return;
  }
  n.progress[job.id].pending = 1;
  if (n.stuck_until > now_ || n.stopped_until > now_)
    return at(std::max(n.stuck_until, n.stopped_until), again);
  in_node(node, milliseconds(5), [this, &job, node, epoch, step, stage] {
    WorkerProgress& progress = nodes_[node]->progress[job.id];
    progress.pending = 0;
    ++progress.progress;
    after(milliseconds(1), [this, &job, epoch, step, stage] { step_at(job, epoch, step, stage + 1); });
  });
}

// What was sent is not acknowledged: the sender's system says so after a while.
void MemberSimulation::step_is_lost(JobRun& job, Epoch epoch, uint64_t step, size_t from, const NodeId& to) {
  const auto over = [&job, epoch, step] { return job.epoch != epoch || job.step != step; };
  if (from == 0)
    return in_coordinator(seconds(2), [this, epoch, to, over] {
      if (!over()) coordinator_->steps_failed(epoch, to, "no acknowledgement", now_);
    });
  in_node(from, seconds(2), [this, epoch, from, to, over] {
    if (!over()) nodes_[from]->worker->stage_failed(epoch, to, "no acknowledgement", now_);
  });
}

void MemberSimulation::step_ended(JobRun& job, Epoch epoch, bool done) {
  if (job.epoch != epoch) return;
  job.in_flight = false;
  if (done && options_.engine != nullptr) options_.engine->ended(job.id);
  if (job.pause_for != 0) {
    job.paused = true;
    in_coordinator(milliseconds(1), [this, next = job.pause_for] { coordinator_->steps_paused(next, now_); });
  } else if (done) {
    in_coordinator(milliseconds(100), [this, &job] { issue_step(job); });
  }
}

// A job is not wanted any more, and comes back after a while with another model.
void MemberSimulation::end_job(JobRun& job) {
  ++result_.faults["job ended"];
  job.wanted = false;
  // As it is when the coordinator hears of it: one that stood still may hear both in another order, and one
  // that is not there now finds it when it starts.
  const auto tell = [this, &job] {
    in_coordinator(Duration{}, [this, &job] {
      coordinator_->set_job(job.id, job.wanted ? job.task() : ModelTask{}, now_);
    });
  };
  tell();
  at(std::min(peace_at_, now_ + delay(milliseconds(100), seconds(3))), [&job, tell] {
    job.wanted = true;
    ++job.version;
    tell();
  });
}

// In order of keys, as many pieces as fit, no broken pair side by side, the coordinator's node last: it has
// the head. Faster with more nodes.
Result<Placement> MemberSimulation::plan(const PlanQuestion& question) const {
  const uint32_t pieces = jobs_.at(question.job - kFirstJob)->pieces;
  Placement placement{.stages = {}, .pieces = pieces, .tokens_per_s = 1, .words = ""};
  const auto broken = [&](const std::string& from, const std::string& to) {
    return from != to && std::ranges::count(question.broken, std::pair(from, to)) > 0;
  };
  const auto fits = [](const PlanNode& node) {
    return static_cast<uint32_t>(node.ram_free_bytes / kPieceBytes);
  };
  std::vector<PlanNode> nodes;
  for (const PlanNode& node : question.nodes)
    if (node.id != question.coordinator) nodes.push_back(node);
  const auto self = std::ranges::find(question.nodes, question.coordinator, &PlanNode::id);
  // Every job has its head there.
  const auto others = static_cast<uint32_t>(jobs_.size() - 1);
  const uint32_t here = self == question.nodes.end()
                            ? 0
                            : std::min(fits(*self), static_cast<uint32_t>(nodes_[0]->memory_pieces) - others);
  if (here == 0) return {Errc::kOutOfMemory, "the coordinator's node has no room for the head"};
  const auto share = (pieces + static_cast<uint32_t>(nodes.size())) / static_cast<uint32_t>(nodes.size() + 1);
  uint32_t next = 0;
  const auto add = [&](const PlanNode& node, uint32_t take) {
    if (take == 0) return;
    StagePlacement stage;
    stage.members = {{.node = node.id, .memory_bytes = take * kPieceBytes}};
    stage.begin = next;
    stage.end = next += take;
    placement.stages.push_back(stage);
  };
  for (const bool spread : {true, false}) {
    placement.stages.clear();
    next = 0;
    std::string before = question.coordinator.key;
    for (const PlanNode& node : nodes) {
      // The next one may be the last: from every node the way back must work, or it is not used.
      if (broken(before, node.id.key) || broken(node.id.key, question.coordinator.key)) continue;
      const uint32_t take = std::min({pieces - 1 - next, fits(node), spread ? share : pieces});
      add(node, take);
      if (take > 0) before = node.id.key;
    }
    add(*self, std::min(pieces - next, here));
    placement.tokens_per_s = static_cast<double>(placement.stages.size());
    if (next == pieces) return placement;
  }
  return {Errc::kOutOfMemory, fmt::format("{} of {} pieces fit", next, pieces)};
}

// How many jobs at least: all if there is room for all, else one that fits. Which one has it, has it.
size_t MemberSimulation::could_serve() const {
  uint64_t room = 0, all = 0, least = UINT64_MAX;
  for (const auto& node : nodes_)
    if (node->worker && !node->unreachable && !node->disk_full && !node->hostile &&
        !removed_.contains(node->id.key))
      room += node == nodes_[0] ? jobs_.size() : node->memory_pieces;  // at least
  for (const auto& job : jobs_) {
    all += job->pieces;
    least = std::min<uint64_t>(least, job->pieces);
  }
  return room >= all ? jobs_.size() : room - (jobs_.size() - 1) >= least ? 1 : 0;
}

// Among the processes that may run one epoch, no piece is run twice.
void MemberSimulation::check_overlap(size_t node) {
  const Worker& a = *nodes_[node]->worker;
  for (const auto& job : jobs_) {
    if (!a.may_run(a.epoch(job->id))) continue;
    const Assignment& mine = *a.work(job->id);
    for (const auto& other : nodes_) {
      const Worker* b = other->worker.get();
      if (b == nullptr || b == &a || !b->may_run(mine.epoch)) continue;
      const Assignment& theirs = *b->work(job->id);
      if (mine.begin < theirs.end && theirs.begin < mine.end)
        broke(fmt::format("{} and {} run the same pieces in epoch {}", nodes_[node]->id.name, other->id.name,
                          mine.epoch));
    }
  }
}

// What the coordinator gives to all jobs together, every node has, unless it lied about it. Looked at now and
// then where there are many.
void MemberSimulation::check_memory() {
  if (nodes_.size() > 8 && scheduled_ % 32 != 0) return;
  for (const auto& node : nodes_) {
    if (node->hostile) continue;
    uint64_t bytes = 0;
    for (const auto& [id, job] : coordinator_->jobs()) bytes += job.reserved_bytes(node->id);
    if (bytes > node->memory_pieces * kPieceBytes)
      broke(fmt::format("{} has {} bytes, its jobs have {}", node->id.name, node->memory_pieces * kPieceBytes,
                        bytes));
  }
}

}  // namespace butterfly::cluster::testing
