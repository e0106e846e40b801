#include "cluster/testing/member_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/rng.h"
#include "base/units.h"
#include "cluster/testing/simulation_parts.h"

namespace butterfly::cluster::testing {

namespace {

CoordinatorConfig coordinator_config(Incarnation incarnation, const NodeId& self, bool faults, bool many) {
  CoordinatorConfig config{.incarnation = incarnation, .self = self, .address = "coordinator"};
  config.numerics_id = 1;
  if (!faults) return config;
  config.nodes_wanted = 2;
  config.nodes_wait = seconds(2);
  config.measure_wait = seconds(1);
  config.plan_wait = seconds(2);
  config.pause_wait = seconds(1);
  config.start_wait = seconds(2);
  config.load_stall = seconds(3);
  config.load_wait = seconds(10);
  config.hold_min = seconds(1);
  config.hold_max = seconds(many ? 60 : 4);  // of many several fail, one after the other
  config.retry_max = seconds(1);
  return config;
}

}  // namespace

MemberSimulation::MemberSimulation(uint64_t seed, SimulationOptions options)
    : seed_(seed), options_(options) {
  peace_at_ = now_ + (options_.faults ? kFaults : Duration{});
  end_at_ = peace_at_ + kPeace + (options_.faults ? Duration{} : kPeaceKill);
  const size_t count = options_.nodes_min + draw(options_.nodes_max - options_.nodes_min + 1);
  // A large cluster is one because nobody has room for much.
  const bool large = count > 5;
  const auto jobs = static_cast<JobId>(1 + draw(2));
  uint32_t pieces = 0;
  for (JobId id = kFirstJob; id <= jobs; ++id) {
    jobs_.push_back(std::make_unique<JobRun>());
    jobs_.back()->id = id;
    jobs_.back()->pieces =
        4 + static_cast<uint32_t>(draw(9)) + static_cast<uint32_t>(large ? count / jobs : 0);
    pieces += jobs_.back()->pieces;
  }
  result_.jobs = jobs_.size();
  for (size_t i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    Node& n = *nodes_.back();
    n.id = {fmt::format("key-{:03}", i), fmt::format("node-{}", i)};
    n.memory_pieces = large ? 2 + draw(3) : 2 + draw(pieces);  // node 0: a head of each job
    if (i == 0 || !options_.faults) continue;
    const std::pair<bool*, double> kinds[] = {{&n.unreachable, 0.1},
                                              {&n.disk_full, 0.05},
                                              {&n.slow_fetch, 0.1},
                                              {&n.hostile, options_.hostile ? 0.03 : 0}};
    constexpr const char* kNames[] = {"unreachable", "disk full", "slow fetch", "hostile"};
    for (size_t kind = 0; kind < std::size(kinds); ++kind) {
      *kinds[kind].first = chance(kinds[kind].second);
      if (*kinds[kind].first) ++result_.faults[kNames[kind]];
    }
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
  // "key-017"
  const size_t index = id.key.size() > 4 ? std::strtoul(id.key.c_str() + 4, nullptr, 10) : SIZE_MAX;
  return index < nodes_.size() && nodes_[index]->id == id ? index : SIZE_MAX;
}

bool MemberSimulation::has_hostile() const {
  return std::ranges::any_of(nodes_, [](const auto& node) { return node->hostile; });
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
  coordinator_ = std::make_unique<Coordinator>(
      coordinator_config(1000 * coordinator_life_, nodes_[0]->id, options_.faults, nodes_.size() > 20), now_);
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
  for (const auto& job : jobs_) {
    job->halt();
    if (options_.engine != nullptr) options_.engine->restarted(job->id);
  }
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
  check_overlap(node);
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
  if (action.epoch != job.epoch) return;
  job.halt();
  if (options_.engine != nullptr) options_.engine->lost(job.id);
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
  if (options_.engine != nullptr && job.epoch != 0) options_.engine->lost(job.id);  // replaced
  ++result_.epochs;
  job.halt();
  job.epoch = action.epoch;
  job.placement = action.placement;
  const NodeId first = action.placement.stages.front().first();
  in_coordinator(delay(Duration{}, milliseconds(20)), [this, &job, epoch = action.epoch, first] {
    if (job.epoch != epoch) return;
    if (!reaches(0, index_of(first))) return coordinator_->steps_failed(epoch, first, "cannot connect", now_);
    coordinator_->steps_connected(epoch, now_);
    job.served_at = now_;
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
void MemberSimulation::act(size_t, const KeepLeaders&) {}
void MemberSimulation::act(size_t, const FreeWeights&) {}
void MemberSimulation::act(size_t node, const GiveUp&) {
  if (!removed_.contains(nodes_[node]->id.key) && !nodes_[node]->hostile)
    broke("a node that was not removed gives up");
}

void MemberSimulation::act(size_t node, const PrepareWeights& action) {
  const bool slow = nodes_[node]->slow_fetch;
  load_progress(node, action.work, slow ? 30 : draw(6),
                delay(milliseconds(1), milliseconds(slow ? 250 : 150)), true);
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
  if (pieces > n.memory_pieces && !n.hostile) {
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
    const Status status = n.disk_full              ? Status(Errc::kIo, "no space left on device")
                          : !peace && chance(0.05) ? Status(Errc::kOutOfMemory, "not enough memory")
                                                   : Status();
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

SimulationResult MemberSimulation::run() {
  start_coordinator();
  for (size_t i = 0; i < nodes_.size(); ++i)
    at(now_ + delay(Duration{}, milliseconds(i == 0 ? 100 : 3000)), [this, i] {
      if (!nodes_[i]->worker) start_node(i);
    });
  if (options_.faults) after(delay(Duration{}, seconds(2)), [this] { one_fault(); });
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i]->hostile) after(seconds(1), [this, i] { one_lie(i); });
  if (!options_.faults) run_in_peace();
  at(end_at_ - kStable, [this] {
    steps_in_peace_ = result_.steps;
    halts_in_peace_ = coordinator_->counters().halts;
  });
  at(end_at_, [this] { check_end(); });
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
