#include "cluster/testing/member_simulation.h"

#include <fmt/format.h>

#include "base/rng.h"
#include "base/units.h"

namespace butterfly::cluster::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Duration kTick = milliseconds(50);
constexpr Duration kFaults = seconds(15);
// After the last fault: dead links are found (3 s), holds end (4 s, and again after a late failure), loads
// take their time, and what is then served must stay so.
constexpr Duration kPeace = seconds(30);
constexpr Duration kStable = seconds(3);
constexpr Duration kStepDeadline = seconds(6);
constexpr uint64_t kPieceBytes = 1000;

CoordinatorConfig coordinator_config(Incarnation incarnation, const NodeId& self) {
  CoordinatorConfig config{.incarnation = incarnation, .self = self, .address = "coordinator"};
  config.numerics_id = 1;
  config.nodes_wanted = 2;
  config.nodes_wait = seconds(2);
  config.measure_wait = seconds(1);
  config.plan_wait = seconds(2);
  config.pause_wait = seconds(1);
  config.start_wait = seconds(2);
  config.load_stall = seconds(3);
  config.load_wait = seconds(10);
  config.hold_min = seconds(1);
  config.hold_max = seconds(4);
  config.retry_max = seconds(1);
  return config;
}

}  // namespace

struct MemberSimulation::Node {
  NodeId id;
  uint64_t memory_pieces = 0;
  std::unique_ptr<Worker> worker;  // null: the process does not run
  uint64_t life = 0;
  LinkNumber link = 0;
  TimePoint stopped_until{};  // SIGSTOP
  TimePoint stuck_until{};    // its compute thread hangs, its heartbeats go on
  TimePoint cut_off_until{};  // no packet gets through
  std::map<JobId, WorkerProgress> progress;
  std::map<JobId, Epoch> newest;  // that this process was told to load
  bool unreachable = false;       // a laptop behind a firewall: it calls, nobody can call it
};

struct MemberSimulation::Wire {
  size_t node = 0;
  uint64_t coordinator_life = 0, node_life = 0;
  bool open_at_coordinator = true, open_at_worker = true;
  TimePoint last_to_worker{}, last_to_coordinator{};
};

// A job and its engine: one step at a time through the stages.
struct MemberSimulation::JobRun {
  JobId id = 0;
  uint32_t pieces = 0;
  uint64_t version = 1;  // of its model
  bool wanted = true;
  Epoch last_served = 0;
  uint64_t steps = 0;  // done

  Epoch epoch = 0;  // 0: halted
  Placement placement;
  uint64_t step = 0;
  bool in_flight = false;
  Epoch pause_for = 0;  // asked to pause, answer with this
  bool paused = false;

  void halt() {
    epoch = pause_for = 0;
    in_flight = paused = false;
    placement = {};
    ++step;
  }
  ModelTask task() const {
    return {fmt::format("model-{}-{}", id, version), fmt::format("model-{}", id), ""};
  }
};

MemberSimulation::MemberSimulation(uint64_t seed) : seed_(seed) {
  peace_at_ = now_ + kFaults;
  end_at_ = peace_at_ + kPeace;
  uint32_t pieces = 0;
  const auto jobs = static_cast<JobId>(1 + draw(2));
  for (JobId id = kFirstJob; id <= jobs; ++id) {
    jobs_.push_back(std::make_unique<JobRun>());
    jobs_.back()->id = id;
    pieces += jobs_.back()->pieces = 4 + static_cast<uint32_t>(draw(9));
  }
  result_.jobs = jobs_.size();
  const size_t count = 2 + draw(4);
  for (size_t i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_.back()->id = {fmt::format("key-{}", i), fmt::format("node-{}", i)};
    nodes_.back()->memory_pieces = 2 + draw(pieces);
    nodes_.back()->unreachable = i > 0 && chance(0.1);
    if (nodes_.back()->unreachable) ++result_.faults["unreachable"];
  }
}

MemberSimulation::~MemberSimulation() = default;

// ---- Random numbers and time ----

uint64_t MemberSimulation::draw(uint64_t below) { return random_u64(seed_, 7, draws_++) % below; }
bool MemberSimulation::chance(double probability) {
  return static_cast<double>(draw(1u << 20)) < probability * (1u << 20);
}
Duration MemberSimulation::delay(Duration least, Duration most) {
  return least + Duration(static_cast<int64_t>(draw(static_cast<uint64_t>((most - least).count()) + 1)));
}
void MemberSimulation::at(TimePoint when, std::function<void()> what) {
  queue_.emplace(std::pair(std::max(when, now_), scheduled_++), std::move(what));
}

void MemberSimulation::broke(std::string what) {
  if (result_.problem.empty())
    result_.problem = fmt::format("at {}: {}", format_duration(now_ - TimePoint{}), what);
}

size_t MemberSimulation::index_of(const NodeId& id) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i]->id == id) return i;
  return SIZE_MAX;
}

MemberSimulation::JobRun& MemberSimulation::run_of(JobId job) { return *jobs_.at(job - kFirstJob); }

Epoch MemberSimulation::served_epoch(JobId job) const {
  const Job* found = coordinator_ ? coordinator_->job(job) : nullptr;
  return found == nullptr ? 0 : found->serving_epoch();
}

// ---- Processes ----

void MemberSimulation::in_coordinator(Duration wait, std::function<void()> what) {
  after(wait, [this, life = coordinator_life_, what = std::move(what)] {
    if (life != coordinator_life_ || !coordinator_) return;
    if (coordinator_stopped_until_ > now_) return in_coordinator(coordinator_stopped_until_ - now_, what);
    what();
    drive_coordinator();
  });
}

void MemberSimulation::in_node(size_t node, Duration wait, std::function<void()> what) {
  after(wait, [this, node, life = nodes_[node]->life, what = std::move(what)] {
    Node& n = *nodes_[node];
    if (life != n.life || !n.worker) return;
    if (n.stopped_until > now_) return in_node(node, n.stopped_until - now_, what);
    what();
    drive_node(node);
  });
}

void MemberSimulation::start_coordinator() {
  ++coordinator_life_;
  coordinator_ =
      std::make_unique<Coordinator>(coordinator_config(1000 * coordinator_life_, nodes_[0]->id), now_);
  for (const std::string& key : removed_) coordinator_->forbid(key);
  for (const auto& job : jobs_)
    if (job->wanted) coordinator_->set_job(job->id, job->task(), now_);
  in_coordinator(Duration{}, [this] { tick_coordinator(); });
}

void MemberSimulation::tick_coordinator() {
  coordinator_->tick(now_);
  in_coordinator(kTick, [this] { tick_coordinator(); });
}

void MemberSimulation::start_node(size_t node) {
  Node& n = *nodes_[node];
  ++n.life;
  n.progress.clear();
  n.newest.clear();
  n.link = 0;
  WorkerConfig config{.instance = n.life * 1000 + node, .coordinator = "coordinator"};
  Capabilities& c = config.join.capabilities;
  c.numerics_id = 1;
  c.threads = 1;
  c.memory = c.f32 = c.int8 = {1e9, 1e9};
  c.ram_limit_bytes = n.memory_pieces * kPieceBytes;
  config.join.address = n.id.name;
  config.back_off_max = seconds(1);
  n.worker = std::make_unique<Worker>(config, now_);
  in_node(node, Duration{}, [this, node] { tick_node(node); });
}

void MemberSimulation::tick_node(size_t node) {
  Node& n = *nodes_[node];
  for (const auto& [job, progress] : n.progress) n.worker->set_progress(job, progress);
  n.worker->set_memory(n.memory_pieces * kPieceBytes);
  n.worker->tick(now_);
  in_node(node, kTick, [this, node] { tick_node(node); });
}

void MemberSimulation::kill_node(size_t node, bool silently) {
  Node& n = *nodes_[node];
  if (!n.worker) return;
  const LinkNumber link = n.link;
  n.worker.reset();
  ++n.life;
  n.stopped_until = n.stuck_until = {};
  if (link != 0) break_link(link, !silently, false);
}

void MemberSimulation::restart_coordinator() {
  std::vector<LinkNumber> open;
  for (const auto& [link, wire] : wires_) open.push_back(link);
  coordinator_.reset();
  for (const auto& job : jobs_) job->halt();
  coordinator_stopped_until_ = {};
  for (const LinkNumber link : open) break_link(link, false, true);
  kill_node(0, true);
  ++coordinator_life_;
  after(delay(milliseconds(50), seconds(2)), [this] {
    start_coordinator();
    start_node(0);
  });
}

// ---- Shells ----

void MemberSimulation::drive_coordinator() {
  // Acting may not feed events at once, so one round is all there is.
  for (const CoordinatorAction& action : coordinator_->take_actions())
    std::visit([&](const auto& a) { act(a); }, action);
  for (const auto& job : jobs_)
    if (served_epoch(job->id) != job->epoch)
      broke(fmt::format("the coordinator serves epoch {} of job {}, the engine {}", served_epoch(job->id),
                        job->id, job->epoch));
  check_memory();
}

void MemberSimulation::drive_node(size_t node) {
  Worker& worker = *nodes_[node]->worker;
  for (const WorkerAction& action : worker.take_actions())
    std::visit([&](const auto& a) { act(node, a); }, action);
  check_overlap();
}

void MemberSimulation::act(const SendToWorker& action) { deliver(action.link, true, encode(action.message)); }
void MemberSimulation::act(const CloseLink& action) { break_link(action.link, false, true); }

void MemberSimulation::act(const MakePlan& action) {
  const bool peace = now_ >= peace_at_;
  if (!peace && chance(0.02)) return;  // a planner that never answers
  in_coordinator(delay(Duration{}, milliseconds(100)), [this, question = action.question] {
    coordinator_->planned(question.epoch, plan(question), now_);
  });
}

void MemberSimulation::act(const PauseSteps& action) {
  JobRun& job = run_of(action.job);
  if (action.epoch != job.epoch) broke("a pause of an epoch that does not run");
  job.pause_for = action.next;
  if (!job.in_flight) step_ended(job, job.epoch, false);
}

void MemberSimulation::act(const HaltSteps& action) {
  JobRun& job = run_of(action.job);
  if (action.epoch == job.epoch) job.halt();
}

void MemberSimulation::act(const ServeSteps& action) {
  JobRun& job = run_of(action.job);
  if (action.epoch == job.epoch) {  // the change was given up: go on
    job.pause_for = 0;
    const bool was_paused = std::exchange(job.paused, false);
    if (was_paused) in_coordinator(Duration{}, [this, &job] { issue_step(job); });
    return;
  }
  if (action.epoch <= job.last_served) broke("an epoch that is not newer is served");
  for (const auto& other : jobs_)
    if (other.get() != &job && other->epoch == action.epoch) broke("two jobs have one epoch");
  if (const std::string why = why_not_whole(action.placement); !why.empty()) broke(why);
  for (const NodeId& node : action.placement.nodes())
    if (removed_.contains(node.key)) broke("a removed node has a stage");
  job.last_served = action.epoch;
  ++result_.epochs;
  job.halt();
  job.epoch = action.epoch;
  job.placement = action.placement;
  const NodeId first = action.placement.stages.front().first();
  in_coordinator(delay(Duration{}, milliseconds(20)), [this, &job, epoch = action.epoch, first] {
    if (job.epoch != epoch) return;
    if (!reaches(0, index_of(first))) return coordinator_->steps_failed(epoch, first, "cannot connect", now_);
    coordinator_->steps_connected(epoch, now_);
    if (job.epoch == epoch && !coordinator_->job(job.id)->connected())
      broke("the chain is there, but not served");
    issue_step(job);
  });
}

void MemberSimulation::act(size_t node, const ConnectToCoordinator& action) {
  Node& n = *nodes_[node];
  if (n.cut_off_until > now_) return;  // silence: the worker's own deadline ends it
  after(delay(milliseconds(1), milliseconds(20)), [this, node, life = n.life, attempt = action.attempt] {
    Node& caller = *nodes_[node];
    if (caller.life != life || !caller.worker) return;
    if (!coordinator_)
      return in_node(node, Duration{}, [this, node, attempt] {
        nodes_[node]->worker->connect_failed(attempt, "refused", now_);
      });
    const LinkNumber link = ++last_link_;
    wires_[link] = std::make_unique<Wire>(Wire{node, coordinator_life_, life, true, true, {}, {}});
    in_coordinator(Duration{}, [this, link, id = caller.id] { coordinator_->link_opened(link, id, now_); });
    in_node(node, Duration{}, [this, node, attempt, link] {
      nodes_[node]->link = link;
      nodes_[node]->worker->connected(attempt, link, now_);
    });
  });
}

void MemberSimulation::act(size_t, const SendToCoordinator& action) {
  deliver(action.link, false, encode(action.message));
}
void MemberSimulation::act(size_t, const CloseWorkerLink& action) { break_link(action.link, true, false); }
void MemberSimulation::act(size_t, const StopStage&) {}
void MemberSimulation::act(size_t, const StopPreparing&) {}
void MemberSimulation::act(size_t, const CutOff&) {}
void MemberSimulation::act(size_t, const FreeWeights&) {}
void MemberSimulation::act(size_t node, const GiveUp&) {
  if (!removed_.contains(nodes_[node]->id.key)) broke("a node that was not removed gives up");
}

void MemberSimulation::act(size_t node, const PrepareWeights& action) {
  load_progress(node, action.work, draw(6), delay(milliseconds(1), milliseconds(150)), true);
}
void MemberSimulation::act(size_t node, const LoadStage& action) {
  Node& n = *nodes_[node];
  const Assignment& work = action.work;
  if (work.model.id != run_of(work.job).task().id && now_ >= peace_at_ + seconds(5))
    broke(fmt::format("{} loads {}", n.id.name, work.model.id));
  if (work.epoch <= n.newest[work.job]) broke(fmt::format("{} goes back to epoch {}", n.id.name, work.epoch));
  n.newest[work.job] = work.epoch;
  // Another job's part may still be there where messages overtake each other, and there only.
  uint64_t pieces = 0;
  for (const JobId job : n.worker->jobs())
    if (const Assignment* stage = n.worker->work(job)) pieces += stage->end - stage->begin;
  if (pieces > n.memory_pieces) {
    ++result_.faults["no room"];
    if (now_ >= peace_at_ + seconds(5) || work.end - work.begin > n.memory_pieces)
      broke(fmt::format("{} has more pieces than memory", n.id.name));
    return in_node(node, milliseconds(1), [this, node, epoch = work.epoch] {
      nodes_[node]->worker->loaded(epoch, {Errc::kOutOfMemory, "another job is there"}, 0, now_);
    });
  }
  load_progress(node, action.work, draw(8), delay(milliseconds(1), milliseconds(300)), false);
}

// `left` units of work, `each` long, then the report. Some loads fail, some stand still.
void MemberSimulation::load_progress(size_t node, const Assignment& work, uint64_t left, Duration each,
                                     bool prepare) {
  const bool peace = now_ >= peace_at_;
  if (!peace && chance(0.01)) return;  // hangs for ever; the coordinator must notice
  in_node(node, each, [this, node, work, left, each, prepare, peace] {
    Node& n = *nodes_[node];
    ++n.progress[work.job].load_done;
    if (left > 0) return load_progress(node, work, left - 1, each, prepare);
    const Status status = !peace && chance(0.05) ? Status(Errc::kOutOfMemory, "not enough memory") : Status();
    if (!prepare) return n.worker->loaded(work.epoch, status, kPieceBytes, now_);
    if (status && !reaches(node, index_of(work.next)))
      return n.worker->prepared(work.epoch, {Errc::kPeerLost, "no answer"}, work.next, now_);
    n.worker->prepared(work.epoch, status, {}, now_);
  });
}

bool MemberSimulation::reaches(size_t from, size_t to) const {
  if (from == to) return true;
  const Node& there = *nodes_[to];
  const auto cut = cut_until_.find({from, to});
  return there.worker && !there.unreachable && there.cut_off_until <= now_ &&
         nodes_[from]->cut_off_until <= now_ && (cut == cut_until_.end() || cut->second <= now_);
}

void MemberSimulation::act(size_t node, const RunStage& action) {
  const Assignment work = action.work;
  in_node(node, delay(milliseconds(1), milliseconds(30)), [this, node, work] {
    // The next stage must have loaded the same epoch, or there is nothing to link to.
    const bool last = work.stage + 1 == work.stages;
    const size_t next = index_of(work.next);
    const Worker* peer = next == SIZE_MAX ? nullptr : nodes_[next]->worker.get();
    const bool there =
        last || (peer != nullptr && peer->epoch(work.job) == work.epoch && reaches(node, next));
    nodes_[node]->worker->started(work.epoch, there ? Status() : Status(Errc::kPeerLost, "no next stage"),
                                  now_);
  });
}

void MemberSimulation::act(size_t node, const MeasurePeer& action) {
  if (chance(0.1) && now_ < peace_at_) return;
  in_node(node, delay(milliseconds(1), milliseconds(50)), [this, node, peer = action.peer] {
    const size_t to = index_of(peer);
    if (!reaches(node, to))
      return nodes_[node]->worker->measured(peer, Status(Errc::kPeerLost, "connection refused"), now_);
    nodes_[node]->worker->measured(peer, LinkFigures{1e-4, 1e9, {{1024, 1e-4}}}, now_);
  });
}

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
    in_coordinator(Duration{}, [this, link, body] {
      Result<ToCoordinator> message = decode_to_coordinator(body);
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

// In order of keys, as many pieces as fit, no broken pair side by side; faster with more nodes.
Result<Placement> MemberSimulation::plan(const PlanQuestion& question) const {
  const uint32_t pieces = jobs_.at(question.job - kFirstJob)->pieces;
  Placement placement{.stages = {}, .pieces = pieces, .tokens_per_s = 1, .words = ""};
  uint32_t next = 0;
  const auto nodes = static_cast<uint32_t>(question.nodes.size());
  const uint32_t share = (pieces + nodes - 1) / nodes;
  for (const bool spread : {true, false}) {
    placement.stages.clear();
    next = 0;
    std::string before = question.coordinator.key;
    for (const PlanNode& node : question.nodes) {
      if (before != node.id.key && std::ranges::count(question.broken, std::pair(before, node.id.key)) > 0)
        continue;
      const auto fits = static_cast<uint32_t>(node.ram_free_bytes / kPieceBytes);
      const uint32_t take = std::min({pieces - next, fits, spread ? share : pieces});
      if (take == 0) continue;
      before = node.id.key;
      StagePlacement stage;
      stage.members = {{.node = node.id, .memory_bytes = take * kPieceBytes}};
      stage.begin = next;
      stage.end = next += take;
      placement.stages.push_back(stage);
    }
    placement.tokens_per_s = static_cast<double>(placement.stages.size());
    if (next == pieces) return placement;
  }
  return {Errc::kOutOfMemory, fmt::format("{} of {} pieces fit", next, pieces)};
}

// How many jobs at least: all if there is room for all, else one that fits. Which one has it, has it.
size_t MemberSimulation::could_serve() const {
  uint64_t room = 0, all = 0, least = UINT64_MAX;
  for (const auto& node : nodes_)
    if (node->worker && !node->unreachable && !removed_.contains(node->id.key)) room += node->memory_pieces;
  for (const auto& job : jobs_) {
    all += job->pieces;
    least = std::min<uint64_t>(least, job->pieces);
  }
  return room >= all ? jobs_.size() : room >= least ? 1 : 0;
}

// Among the processes that may run one epoch, no piece is run twice.
void MemberSimulation::check_overlap() {
  for (const auto& job : jobs_)
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Worker* a = nodes_[i]->worker.get();
      if (a == nullptr || !a->may_run(a->epoch(job->id))) continue;
      const Assignment& mine = *a->work(job->id);
      for (size_t j = i + 1; j < nodes_.size(); ++j) {
        const Worker* b = nodes_[j]->worker.get();
        if (b == nullptr || !b->may_run(mine.epoch)) continue;
        const Assignment& theirs = *b->work(job->id);
        if (mine.begin < theirs.end && theirs.begin < mine.end)
          broke(fmt::format("{} and {} run the same pieces in epoch {}", nodes_[i]->id.name,
                            nodes_[j]->id.name, mine.epoch));
      }
    }
}

// What the coordinator gives to all jobs together, every node has.
void MemberSimulation::check_memory() {
  for (const auto& node : nodes_) {
    uint64_t bytes = 0;
    for (const auto& [id, job] : coordinator_->jobs()) bytes += job.reserved_bytes(node->id);
    if (bytes > node->memory_pieces * kPieceBytes)
      broke(fmt::format("{} has {} bytes, its jobs have {}", node->id.name, node->memory_pieces * kPieceBytes,
                        bytes));
  }
}

// ---- Faults ----

void MemberSimulation::one_fault() {
  if (now_ >= peace_at_) return;
  after(delay(milliseconds(50), seconds(3)), [this] { one_fault(); });
  const size_t node = draw(nodes_.size());
  Node& n = *nodes_[node];
  const Duration rest = peace_at_ - now_;
  const auto until = [&](Duration most) { return now_ + std::min(rest, delay(milliseconds(100), most)); };
  switch (draw(12)) {
    case 0:
    case 1:
      if (node == 0 || !n.worker) break;
      ++result_.faults["killed"];
      kill_node(node, chance(0.3));
      at(until(seconds(6)), [this, node] {
        if (!nodes_[node]->worker) start_node(node);
      });
      break;
    case 2:
      ++result_.faults["stopped"];
      n.stopped_until = until(seconds(6));
      break;
    case 3:
      ++result_.faults["stuck"];
      n.stuck_until = until(seconds(6));
      break;
    case 4:
      if (node == 0) break;
      ++result_.faults["cut off"];
      n.cut_off_until = until(seconds(6));
      break;
    case 5:
      ++result_.faults["link lost"];
      if (n.link != 0) break_link(n.link, chance(0.8), chance(0.8));
      break;
    case 6:
      if (node == 0 || !n.worker || !chance(0.3)) break;
      ++result_.faults["left"];
      in_node(node, Duration{}, [this, node] {
        nodes_[node]->worker->leave("it leaves", now_);
        after(milliseconds(200), [this, node] { kill_node(node, false); });
        after(seconds(1) + delay(Duration{}, seconds(3)), [this, node] {
          if (!nodes_[node]->worker) start_node(node);
        });
      });
      break;
    case 7:
      if (node == 0 || !chance(0.15)) break;
      in_coordinator(Duration{}, [this, node] {
        if (!coordinator_->remove_node(nodes_[node]->id.name, now_).ok()) return;
        ++result_.faults["removed"];
        removed_.insert(nodes_[node]->id.key);
      });
      break;
    case 9:
    case 10: {
      const size_t other = draw(nodes_.size());
      if (other == node) break;
      ++result_.faults["pair cut"];
      cut_until_[{node, other}] = until(seconds(8));
      if (chance(0.5)) cut_until_[{other, node}] = until(seconds(8));
      break;
    }
    case 11: {
      JobRun& job = *jobs_[draw(jobs_.size())];
      if (coordinator_ && job.wanted && chance(0.3)) end_job(job);
      break;
    }
    default:
      if (!coordinator_) break;
      if (chance(0.2)) {
        ++result_.faults["coordinator restarted"];
        restart_coordinator();
      } else {
        ++result_.faults["coordinator stopped"];
        coordinator_stopped_until_ = until(seconds(4));
      }
      break;
  }
}

void MemberSimulation::check_end() {
  result_.could_serve = could_serve();
  struct Before {
    Epoch epoch;
    uint64_t steps;
  };
  std::vector<Before> before;
  size_t served = 0;
  std::string why;
  for (const auto& job : jobs_) {
    const Epoch epoch = served_epoch(job->id);
    before.push_back({epoch, job->steps});
    served += epoch != 0;
    if (epoch != 0) continue;
    const std::string reason = coordinator_->job(job->id)->why_not_serving();
    if (reason.empty()) broke("nothing is served, for no reason");
    why += fmt::format("; job {}: {}", job->id, reason);
  }
  if (served < result_.could_serve)
    return broke(
        fmt::format("{} jobs are served, and there is memory for {}{}", served, result_.could_serve, why));
  at(end_at_, [this, before] {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (before[i].epoch == 0) continue;
      if (served_epoch(jobs_[i]->id) < before[i].epoch) broke("the cluster does not stay stable");
      if (jobs_[i]->steps == before[i].steps) broke("steps do not end any more");
    }
    for (const auto& job : jobs_) result_.served += served_epoch(job->id) != 0;
  });
}

SimulationResult MemberSimulation::run() {
  start_coordinator();
  for (size_t i = 0; i < nodes_.size(); ++i)
    at(now_ + delay(Duration{}, milliseconds(i == 0 ? 100 : 3000)), [this, i] {
      if (!nodes_[i]->worker) start_node(i);
    });
  after(delay(Duration{}, seconds(2)), [this] { one_fault(); });
  at(end_at_ - kStable, [this] { check_end(); });
  while (!queue_.empty() && result_.problem.empty()) {
    auto first = queue_.begin();
    now_ = first->first.first;
    if (now_ > end_at_) break;
    const auto what = std::move(first->second);
    queue_.erase(first);
    what();
  }
  for (const ClusterEvent& event :
       coordinator_ ? coordinator_->events().since(0) : std::vector<ClusterEvent>{})
    result_.story += fmt::format("{:>9} {:<12} {:<7} {} {}\n", format_duration(event.at - TimePoint{}),
                                 event_name(event.kind), event.node, event.epoch, event.text);
  if (coordinator_) {
    const CoordinatorCounters& c = coordinator_->counters();
    result_.halts = c.halts;
    result_.dropped = c.old_epochs + c.unknown_links;
    if (c.plans > 1000) broke(fmt::format("{} plans were asked for", c.plans));
  }
  return std::move(result_);
}

}  // namespace butterfly::cluster::testing
