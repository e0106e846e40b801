#include "cluster/member/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

constexpr Duration kSilentMost = std::chrono::minutes(2);

}  // namespace

Worker::Worker(WorkerConfig config, TimePoint now)
    : config_(std::move(config)),
      started_at_(now),
      since_(now),
      connect_at_(now),
      heard_at_(now),
      beat_at_(now),
      ticked_at_(now),
      silent_after_(config_.silent_after) {}

std::vector<WorkerAction> Worker::take_actions() { return std::exchange(actions_, {}); }

void Worker::send(ToCoordinator message) {
  if (state_ == State::kJoined || state_ == State::kJoining)
    actions_.emplace_back(SendToCoordinator{link_, std::move(message)});
}

// ---- Staying connected ----

// Doubles up to the maximum, and is drawn from its upper half, so that nodes which lost the same coordinator
// do not come back in step.
Duration Worker::back_off() const {
  // Where several may lead, one of them soon does.
  const Duration most = coordinators_.size() > 1
                            ? std::min<Duration>(config_.back_off_max, std::chrono::seconds(1))
                            : config_.back_off_max;
  const Duration full = std::min(most, config_.back_off_min * (int64_t{1} << std::min(failures_, 16u)));
  const float draw = random_uniform(config_.instance, 0, attempt_);
  return full / 2 + Duration(static_cast<int64_t>(static_cast<double>(full.count() / 2) * draw));
}

// Each in turn while none welcomes it.
const std::string& Worker::coordinator() const {
  return coordinators_.empty() ? config_.coordinator : coordinators_[failures_ % coordinators_.size()];
}

void Worker::disconnected(std::string why, TimePoint now) {
  if (state_ == State::kGivenUp) return;
  if (link_ != 0) actions_.emplace_back(CloseWorkerLink{link_, why});
  link_ = 0;
  retired_ = retired_ || retires_;
  for (auto& [job, work] : works_) stop_stage(work);
  last_problem_ = std::move(why);
  connect_at_ = now + back_off();
  ++failures_;
  state_ = State::kWaiting;
  since_ = now;
}

void Worker::connected(uint64_t attempt, LinkNumber link, TimePoint now) {
  if (attempt != attempt_ || state_ != State::kConnecting) {
    ++counters_.unknown_links;
    actions_.emplace_back(CloseWorkerLink{link, "too late"});
    return;
  }
  link_ = link;
  state_ = State::kJoining;
  since_ = heard_at_ = now;
  Join join = config_.join;
  join.instance = config_.instance;
  if (join.unix_ms != 0)
    join.unix_ms += std::chrono::duration_cast<std::chrono::milliseconds>(now - started_at_).count();
  send(std::move(join));
}

void Worker::connect_failed(uint64_t attempt, std::string_view why, TimePoint now) {
  if (attempt == attempt_ && state_ == State::kConnecting) disconnected(std::string(why), now);
}

void Worker::connect_refused(uint64_t attempt, std::string_view why, TimePoint now) {
  if (attempt != attempt_ || state_ != State::kConnecting) return;
  disconnected(std::string(why), now);
  give_up(std::string(why));
}

void Worker::give_up(const std::string& why) {
  state_ = State::kGivenUp;
  for (const auto& [job, work] : works_) actions_.emplace_back(FreeWeights{job});
  actions_.emplace_back(GiveUp{why});
}

void Worker::link_closed(LinkNumber link, std::string_view why, TimePoint now) {
  if (link != link_ || link == 0) return;
  link_ = 0;
  disconnected(fmt::format("the link to the coordinator closed: {}", why), now);
}

void Worker::received_garbage(LinkNumber link, std::string_view why, TimePoint now) {
  if (link == link_ && link != 0)
    disconnected(fmt::format("the coordinator broke the protocol: {}", why), now);
}

void Worker::received(LinkNumber link, const ToWorker& message, TimePoint now) {
  if (link != link_ || link == 0) {
    ++counters_.unknown_links;
    return;
  }
  heard_at_ = now;
  const bool greeting = std::holds_alternative<Welcome>(message) || std::holds_alternative<Refuse>(message);
  if (state_ == State::kJoining && !greeting)
    return received_garbage(link, fmt::format("'{}' before 'welcome'", name_of(message)), now);
  std::visit([&](const auto& m) { handle(m, now); }, message);
}

void Worker::handle(const Welcome& message, TimePoint now) {
  // An older life of the coordinator still answers: it must not undo what the newer one ordered.
  if (message.incarnation < incarnation_) {
    ++counters_.incarnations;
    return disconnected("an older coordinator answers there", now);
  }
  incarnation_ = message.incarnation;
  beat_every_ =
      std::clamp<Duration>(message.beat_every, std::chrono::milliseconds(10), std::chrono::seconds(1));
  // Shorter than a few beats would be a mistake, longer than two minutes no watch at all.
  if (message.silent_after > Duration{})
    silent_after_ = std::clamp<Duration>(message.silent_after, 4 * beat_every_, kSilentMost);
  state_ = State::kJoined;
  since_ = now;
  failures_ = 0;
  last_problem_.clear();
  if (!message.removed.empty()) actions_.emplace_back(CutOff{message.removed});
  if (retires_) send(Retire{*retires_});
  beat(now);
}

void Worker::handle(const Refuse& message, TimePoint now) {
  disconnected(message.text, now);
  if (message.forever) give_up(message.text);
}

void Worker::handle(const Alive& message, TimePoint) {
  if (message.incarnation != incarnation_) ++counters_.incarnations;
}

void Worker::retire(std::string_view why, TimePoint) {
  retires_ = shorten(std::string(why));
  if (state_ == State::kJoined) return send(Retire{*retires_});
  retired_ = true;  // nobody gives it work
}

void Worker::leave(std::string_view why, TimePoint now) {
  if (state_ == State::kJoined) send(Leave{shorten(std::string(why))});
  disconnected(std::string(why), now);
  state_ = State::kGivenUp;
}

// ---- Orders ----

Worker::Work& Worker::work_of(JobId job) {
  Work& work = works_[job];
  work.job = job;
  return work;
}

const Worker::Work* Worker::find(JobId job) const {
  const auto found = works_.find(job);
  return found == works_.end() ? nullptr : &found->second;
}

Worker::Work* Worker::find_stage(Epoch epoch) {
  for (auto& [job, work] : works_)
    if (work.has(epoch)) return &work;
  return nullptr;
}

WorkerPhase Worker::phase() const {
  WorkerPhase most = WorkerPhase::kIdle;
  for (const auto& [job, work] : works_) most = std::max(most, work.phase);
  return most;
}

WorkerPhase Worker::phase(JobId job) const {
  const Work* work = find(job);
  return work == nullptr ? WorkerPhase::kIdle : work->phase;
}

Epoch Worker::epoch(JobId job) const {
  const Assignment* stage = work(job);
  return stage == nullptr ? 0 : stage->epoch;
}

const Assignment* Worker::work(JobId job) const {
  const Work* work = find(job);
  return work != nullptr && work->stage ? &*work->stage : nullptr;
}

std::vector<JobId> Worker::jobs() const {
  std::vector<JobId> jobs;
  for (const auto& [job, work] : works_) jobs.push_back(job);
  return jobs;
}

bool Worker::may_run(Epoch epoch) const {
  return std::ranges::any_of(works_, [&](const auto& row) { return row.second.may_run(epoch); });
}

bool Worker::obeys(const Work& work, Incarnation incarnation, Epoch epoch) {
  if (incarnation != incarnation_) {
    ++counters_.incarnations;
    return false;
  }
  if (epoch < work.newest_epoch) {
    ++counters_.old_epochs;
    return false;
  }
  return true;
}

void Worker::stop_preparing(Work& work) {
  if (work.preparing) actions_.emplace_back(StopPreparing{work.job, work.preparing->epoch});
  work.preparing.reset();
}

void Worker::stop_stage(Work& work) {
  stop_preparing(work);
  if (work.stage) actions_.emplace_back(StopStage{work.job, work.stage->epoch});
  work.stage.reset();
  work.phase = WorkerPhase::kIdle;
}

void Worker::handle(const Prepare& message, TimePoint) {
  Work& work = work_of(message.work.job);
  if (!obeys(work, message.incarnation, message.work.epoch)) return;
  work.preparing = message.work;
  actions_.emplace_back(PrepareWeights{message.work});
}

void Worker::handle(const Assign& message, TimePoint now) {
  Work& work = work_of(message.work.job);
  const Epoch epoch = message.work.epoch;
  if (!obeys(work, message.incarnation, epoch)) return;
  if (work.has(epoch)) {  // once is enough
    ++counters_.old_epochs;
    return;
  }
  stop_stage(work);
  // What stayed in memory of jobs that have no stage here now (the link was lost, say) must not stand in the
  // way.
  for (const auto& [job, other] : works_)
    if (job != work.job && other.idle()) actions_.emplace_back(FreeWeights{job});
  work.newest_epoch = epoch;
  work.stage = message.work;
  work.phase = WorkerPhase::kLoading;
  work.load_began = now;
  actions_.emplace_back(LoadStage{message.work});
}

void Worker::handle(const Go& message, TimePoint) {
  Work& work = work_of(message.job);
  if (!obeys(work, message.incarnation, message.epoch)) return;
  if (!work.has(message.epoch) || work.phase != WorkerPhase::kReady) {
    ++counters_.old_epochs;
    return;
  }
  work.phase = WorkerPhase::kRunning;
  actions_.emplace_back(RunStage{*work.stage});
}

void Worker::handle(const Release& message, TimePoint) {
  Work& work = work_of(message.job);
  if (!obeys(work, message.incarnation, message.epoch)) return;
  if (work.has(message.epoch)) {  // cannot be: a plan has a node or not
    ++counters_.old_epochs;
    return;
  }
  work.newest_epoch = message.epoch;
  stop_stage(work);
  actions_.emplace_back(FreeWeights{message.job, message.cache_wanted});
}

void Worker::handle(const Measure& message, TimePoint) {
  if (message.incarnation != incarnation_) {
    ++counters_.incarnations;
    return;
  }
  actions_.emplace_back(MeasurePeer{message.peer, message.address});
}

void Worker::handle(const Removed& message, TimePoint) {
  if (message.incarnation != incarnation_) {
    ++counters_.incarnations;
    return;
  }
  actions_.emplace_back(CutOff{message.keys});
}

void Worker::handle(const Abandon& message, TimePoint) {
  Work& work = work_of(message.job);
  if (!obeys(work, message.incarnation, message.epoch)) return;
  if (work.preparing && work.preparing->epoch == message.epoch) stop_preparing(work);
  if (work.has(message.epoch)) stop_stage(work);
}

void Worker::handle(const Notice& message, TimePoint) {
  if (message.incarnation != incarnation_) {
    ++counters_.incarnations;
    return;
  }
  notice_ = message.text;
}

void Worker::handle(const Leaders& message, TimePoint) {
  if (message.incarnation != incarnation_) {
    ++counters_.incarnations;
    return;
  }
  actions_.emplace_back(KeepLeaders{message});
}

void Worker::promised(Incarnation incarnation, TimePoint now) {
  if (incarnation <= incarnation_) return;
  incarnation_ = incarnation;
  if (state_ == State::kJoining || state_ == State::kJoined)
    disconnected("another coordinator takes its place", now);
}

void Worker::handle(const Retired& message, TimePoint) {
  if (message.incarnation != incarnation_) {
    ++counters_.incarnations;
    return;
  }
  if (!retires_) return;
  retired_ = true;
  why_not_moved_ = message.text;
}

// ---- The shell's answers ----

void Worker::prepared(Epoch epoch, const Status& status, const NodeId& peer, TimePoint) {
  for (auto& [job, work] : works_) {
    if (!work.preparing || work.preparing->epoch != epoch) continue;
    work.preparing.reset();
    return send(Prepared{epoch, status.code(), shorten(status.text()), peer, job});
  }
  ++counters_.late_reports;
}

void Worker::loaded(Epoch epoch, const Status& status, uint64_t bytes, TimePoint now) {
  Work* work = find_stage(epoch);
  if (work == nullptr || work->phase != WorkerPhase::kLoading) {
    ++counters_.late_reports;
    return;
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - work->load_began).count();
  send(Ready{epoch, status.code(), shorten(status.text()), bytes,
             static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, UINT32_MAX)), work->job});
  if (status.ok()) {
    work->phase = WorkerPhase::kReady;
  } else {
    stop_stage(*work);
  }
}

void Worker::started(Epoch epoch, const Status& status, TimePoint) {
  Work* work = find_stage(epoch);
  if (work == nullptr || !work->may_run(epoch)) {
    ++counters_.late_reports;
    return;
  }
  send(Started{epoch, status.code(), shorten(status.text()), work->job});
  if (!status.ok()) stop_stage(*work);
}

void Worker::stage_failed(Epoch epoch, const NodeId& peer, std::string_view why, TimePoint) {
  Work* work = find_stage(epoch);
  if (work == nullptr || !work->may_run(epoch)) {
    ++counters_.late_reports;
    return;
  }
  send(Trouble{epoch, peer, shorten(std::string(why)), work->job});
  stop_stage(*work);
}

void Worker::measured(const NodeId& peer, const Result<LinkFigures>& figures, TimePoint) {
  if (state_ != State::kJoined) return;
  LinkReport report;
  report.peer = peer;
  report.code = figures.status().code();
  report.text = shorten(figures.status().text());
  if (figures.ok()) report.figures = *figures;
  send(std::move(report));
}

// ---- Time ----

JobBeat Worker::beat_of(const Work& work) const {
  static const WorkerProgress kNone;
  const auto found = progress_.find(work.job);
  const WorkerProgress& p = found == progress_.end() ? kNone : found->second;
  JobBeat beat{.job = work.job,
               .epoch = work.stage ? work.stage->epoch : 0,
               .phase = work.phase,
               .progress = p.progress + p.load_done};
  // A stage that was told to end and hangs is over for the cluster: what it still holds is nobody's work.
  if (work.phase == WorkerPhase::kRunning) beat.pending = p.pending;
  const bool loading = work.phase == WorkerPhase::kLoading || work.preparing;
  if (work.preparing && work.phase == WorkerPhase::kIdle) beat.phase = WorkerPhase::kPreparing;
  if (loading) {
    beat.pending = std::max(beat.pending, 1u);
    beat.load_done = p.load_done;
    beat.load_total = p.load_total;
  }
  beat.steps = p.steps;
  beat.rows = p.rows;
  beat.compute_us = p.compute_us;
  beat.wait_us = p.wait_us;
  beat.wire_us = p.wire_us;
  return beat;
}

void Worker::beat(TimePoint now) {
  beat_at_ = now;
  Beat beat{.ram_free_bytes = ram_free_bytes_, .machine = machine_load_};
  for (const auto& [job, work] : works_)
    if (!work.idle()) beat.jobs.push_back(beat_of(work));
  send(std::move(beat));
}

void Worker::tick(TimePoint now) {
  // After a pause of this process what the coordinator said waits in the socket.
  const Duration gap = now - std::exchange(ticked_at_, now);
  if (const Duration late = gap - silent_after_ / 2; late > Duration{}) {
    heard_at_ += late;
    since_ += late;
  }
  switch (state_) {
    case State::kWaiting:
      if (now < connect_at_) break;
      state_ = State::kConnecting;
      since_ = now;
      ++counters_.connects;
      actions_.emplace_back(ConnectToCoordinator{coordinator(), ++attempt_});
      break;
    case State::kConnecting:
      if (now - since_ >= config_.connect_wait)
        disconnected(fmt::format("{} does not answer", coordinator()), now);
      break;
    case State::kJoining:
      if (now - since_ >= config_.join_wait) disconnected("the coordinator does not answer 'join'", now);
      break;
    case State::kJoined:
      if (now - heard_at_ >= silent_after_) {
        disconnected("the coordinator is silent", now);
      } else if (now - beat_at_ >= beat_every_) {
        beat(now);
      }
      break;
    case State::kGivenUp:
      break;
  }
}

}  // namespace butterfly::cluster
