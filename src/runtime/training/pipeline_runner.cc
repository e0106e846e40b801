#include "runtime/training/pipeline_runner.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::runtime {

using cluster::Arrival;
using cluster::TrainValues;
using Times = cluster::TrainTimes;

namespace {

std::span<const float> floats_of(const PooledArray<std::byte>& rows) {
  return {reinterpret_cast<const float*>(rows.data()), rows.size() / sizeof(float)};
}

size_t total(const BytePieces& pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

PipelineRunner::PipelineRunner(Options options)
    : options_(std::move(options)), machine_(options_.id, options_.step) {}

void PipelineRunner::moved() {
  for (cluster::PipelineAction& action : machine_.take_actions())
    jobs_.push_back(
        [this, action = std::move(action)] { std::visit([this](const auto& it) { perform(it); }, action); });
  notify();
}

// ---- Orders ----

void PipelineRunner::plan(const cluster::TrainPlan& plan) {
  const std::lock_guard lock(mutex_);
  if (!plan.pipelined()) fail(Errc::kCorrupt, "[training plan] no stages, in a job that has some");
  machine_.plan(plan);
  rows_.clear();
  moved();
}

void PipelineRunner::peers_linked(cluster::Epoch epoch) {
  const std::lock_guard lock(mutex_);
  machine_.peers_linked(epoch);
  moved();
}

void PipelineRunner::deal(const cluster::DealtStep& step, MemberInputs inputs) {
  const std::lock_guard lock(mutex_);
  if (step.epoch == machine_.epoch()) {
    dealt_ = step;
    dealt_at_ = system_now();
    inputs_ = std::move(inputs);
    rows_.clear();
  }
  machine_.deal(step.epoch, step.step, step.deal.back().leaves.end);
  if (step.epoch == machine_.epoch() && !machine_.has_stage())
    jobs_.push_back([this, step] { report_leaves(step.epoch, step.step); });
  moved();
}

void PipelineRunner::commit(const cluster::CommitDealtStep& commit) {
  const std::lock_guard lock(mutex_);
  norm_ = commit.norm;
  machine_.commit(commit.epoch, commit.step);
  moved();
}

void PipelineRunner::gather(const cluster::GatherTrainState& gather) {
  const std::lock_guard lock(mutex_);
  machine_.gather(gather.epoch, gather.step);
  moved();
}

uint64_t PipelineRunner::step() const {
  const std::lock_guard lock(mutex_);
  return machine_.step();
}

cluster::TrainPlan PipelineRunner::current_plan() const {
  const std::lock_guard lock(mutex_);
  return machine_.plan();
}

void PipelineRunner::loaded(const cluster::TrainPlan& plan) {
  if (plan.weights_come) machine_.weights_loaded(plan.epoch);
  if (plan.moments_come) machine_.moments_loaded(plan.epoch);
  moved();
}

// ---- Values that arrive ----

Result<MemberWork::Taken> PipelineRunner::receive(TrainLink& link, cluster::TrainMemberId from,
                                                  const TrainLink::Incoming& incoming, bool patient) {
  switch (incoming.values.what) {
    case TrainValues::kForward:
    case TrainValues::kBackward:
    case TrainValues::kTableRows:
      return receive_rows(link, from, incoming, patient);
    case TrainValues::kTable:
      return receive_table(link, from, incoming, patient);
    case TrainValues::kWeights:
    case TrainValues::kMoments:
      if (from == cluster::kTrainLeader && options_.id != cluster::kTrainLeader)
        return receive_state(link, incoming, patient);
      break;
    default:
      break;
  }
  return refuse(link, incoming, "no such values in a pipeline");
}

Result<MemberWork::Taken> PipelineRunner::receive_rows(TrainLink& link, cluster::TrainMemberId from,
                                                       const TrainLink::Incoming& incoming, bool patient) {
  const cluster::MessageHead& head = incoming.head;
  const size_t index = incoming.values.node.index;
  size_t bytes = 0;
  {
    Lock lock(mutex_);
    const Arrival arrival = wait_for(lock, patient, [&] {
      return machine_.rows(incoming.values.what, from, head.epoch, head.step, index);
    });
    if (arrival == Arrival::kWait) return Taken{.later = true};
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) return LinkReaders::drop(link, incoming);
    bytes = row_bytes_;
  }
  if (incoming.value_bytes != bytes) return refuse(link, incoming, fmt::format("expected {} bytes", bytes));
  auto rows = std::make_shared<Rows>(bytes);
  const std::span<std::byte> piece(rows->data(), rows->size());
  link.place_values(incoming, {&piece, 1});
  return Taken{.placed = [this, head, index, what = incoming.values.what, rows](const Status& came) {
    if (!came) return came;
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() == head.epoch && dealt_.epoch == head.epoch && dealt_.step == head.step)
      rows_.insert_or_assign({what, index}, std::move(*rows));
    machine_.rows_taken(what, head.epoch, head.step, index);
    moved();
    return came;
  }};
}

Result<MemberWork::Taken> PipelineRunner::receive_table(TrainLink& link, cluster::TrainMemberId from,
                                                        const TrainLink::Incoming& incoming, bool patient) {
  const cluster::MessageHead& head = incoming.head;
  BytePieces pieces;
  {
    Lock lock(mutex_);
    const Arrival arrival =
        wait_for(lock, patient, [&] { return machine_.table(from, head.epoch, head.step); });
    if (arrival == Arrival::kWait) return Taken{.later = true};
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) return LinkReaders::drop(link, incoming);
    pieces = table_;
  }
  const auto ended = [this, head](const Status& came) {
    const std::lock_guard lock(mutex_);
    machine_.table_ended(head.epoch, head.step, came.ok());
    moved();
    return came;
  };
  if (incoming.value_bytes != total(pieces))
    return ended(refuse(link, incoming, fmt::format("expected {} bytes", total(pieces))));
  link.place_values(incoming, pieces);
  return Taken{.placed = ended};
}

Result<MemberWork::Taken> PipelineRunner::receive_state(TrainLink& link, const TrainLink::Incoming& incoming,
                                                        bool patient) {
  const cluster::MessageHead& head = incoming.head;
  const bool weights = incoming.values.what == TrainValues::kWeights;
  BytePieces pieces;
  {
    Lock lock(mutex_);
    const Arrival arrival = wait_for(lock, patient, [&] { return machine_.state(head.epoch); });
    if (arrival == Arrival::kWait) return Taken{.later = true};
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) return LinkReaders::drop(link, incoming);
    pieces = weights ? weights_ : moments_;
  }
  if (incoming.value_bytes != total(pieces))
    return refuse(link, incoming, fmt::format("expected {} bytes", total(pieces)));
  link.place_values(incoming, pieces);
  return Taken{.placed = [this, epoch = head.epoch, weights](const Status& came) {
    if (!came) return came;
    const std::lock_guard lock(mutex_);
    if (weights)
      machine_.weights_loaded(epoch);
    else
      machine_.moments_loaded(epoch);
    moved();
    return came;
  }};
}

// ---- The computing thread ----

PipelineRunner::Current PipelineRunner::current(cluster::Epoch epoch, uint64_t step, size_t index) {
  const std::lock_guard lock(mutex_);
  Current now;
  now.is = machine_.epoch() == epoch && dealt_.epoch == epoch && dealt_.step == step &&
           index < inputs_.batches.size();
  if (!now.is) return now;
  now.plan = machine_.plan();
  now.batch = inputs_.batches[index];
  now.keep = inputs_.keep;
  return now;
}

PipelineRunner::Rows PipelineRunner::take_rows(TrainValues what, size_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find({what, index});
  if (found == rows_.end()) return {};
  Rows rows = std::move(found->second);
  rows_.erase(found);
  return rows;
}

void PipelineRunner::send_rows(cluster::TrainMemberId to, TrainValues what, cluster::Epoch epoch,
                               uint64_t step, size_t index, std::span<const float> rows) {
  const WorkTimes::Timed timed(times_, &Times::wire);
  const std::span<const std::byte> piece = std::as_bytes(rows);
  options_.calls.send_values(to, epoch, step, {.what = what, .node = {0, static_cast<uint32_t>(index)}},
                             {&piece, 1});
}

template <typename Work>
void PipelineRunner::timed(Work work) {
  const TimePoint start = system_now();
  work();
  const TimePoint end = system_now();
  times_.add(&Times::compute, start, end);
  seconds_ += seconds_of(end - start);
}

void PipelineRunner::perform(const cluster::ReportReady& action) {
  options_.calls.report(cluster::TrainingReady{action.epoch});
}

void PipelineRunner::perform(const cluster::BuildStage& action) {
  const cluster::TrainPlan plan = current_plan();
  if (plan.epoch == action.epoch) {
    {
      const std::lock_guard lock(mutex_);
      weights_ = moments_ = table_ = {};
    }
    stage_ = {};  // its memory goes before the next one's comes
    stage_ = open_stage(*options_.source, plan, options_.id);
    const std::lock_guard lock(mutex_);
    row_bytes_ = stage_.trainer->row_bytes();
    weights_ = weights_read(stage_, plan, options_.id);
    moments_ = moments_of(stage_);
    if (plan.table_apart() && plan.stage_of(options_.id) == 0) table_ = {weights_.front()};
  }
  const std::lock_guard lock(mutex_);
  machine_.built(action.epoch);
  moved();
}

void PipelineRunner::perform(const cluster::BeginStage& action) {
  const Current now = current(action.epoch, action.step, 0);
  if (!now.is) return;
  times_.begin_step(dealt_at_, dealt_.trace);
  stage_.trainer->begin(action.step, {.micro_batches = action.leaves, .targets = dealt_.targets});
  done_ = {.epoch = action.epoch, .step = action.step};
  seconds_ = 0;
}

void PipelineRunner::perform(const cluster::RunForward& action) {
  const Current now = current(action.epoch, action.step, action.index);
  std::span<const float> rows;
  if (now.is) {
    const Rows hidden = take_rows(TrainValues::kForward, action.index);
    timed([&] { rows = stage_.trainer->forward(action.index, now.batch, floats_of(hidden)); });
  }
  {
    // Before what follows is sent: the answer to it may be here sooner than this thread is.
    const std::lock_guard lock(mutex_);
    machine_.forward_done(action.epoch, action.step, action.index);
    moved();
  }
  if (!now.is) return;
  const size_t stage = now.plan.stage_of(options_.id);
  send_rows(now.plan.stages[stage + 1].member, TrainValues::kForward, action.epoch, action.step, action.index,
            rows);
}

void PipelineRunner::perform(const cluster::RunBackward& action) {
  const Current now = current(action.epoch, action.step, action.index);
  const size_t stage = now.plan.stage_of(options_.id);
  std::span<const float> gradient;
  if (now.is) {
    if (stage + 1 == now.plan.stages.size()) {
      const Rows hidden = take_rows(TrainValues::kForward, action.index);
      timed([&] {
        (void)stage_.trainer->forward(action.index, now.batch, floats_of(hidden));
        const train::LeafReport report = stage_.trainer->report(action.index);
        done_.leaves.push_back({report.loss, report.correct});
        gradient = stage_.trainer->backward(action.index, {});
      });
    } else {
      const Rows rows = take_rows(TrainValues::kBackward, action.index);
      timed([&] { gradient = stage_.trainer->backward(action.index, floats_of(rows)); });
    }
  }
  {
    const std::lock_guard lock(mutex_);
    machine_.backward_done(action.epoch, action.step, action.index);
    moved();
  }
  if (gradient.empty()) return;
  const bool to_table = stage == 0;
  send_rows(to_table ? now.plan.stages.back().member : now.plan.stages[stage - 1].member,
            to_table ? TrainValues::kTableRows : TrainValues::kBackward, action.epoch, action.step,
            action.index, gradient);
}

void PipelineRunner::perform(const cluster::AddTableRows& action) {
  const Current now = current(action.epoch, action.step, action.index);
  if (now.is) {
    const Rows rows = take_rows(TrainValues::kTableRows, action.index);
    timed([&] { stage_.trainer->add_rows(action.index, now.batch.tokens, floats_of(rows)); });
  }
  const std::lock_guard lock(mutex_);
  machine_.rows_added(action.epoch, action.step, action.index);
  moved();
}

void PipelineRunner::report_leaves(cluster::Epoch epoch, uint64_t step) {
  done_.epoch = epoch;
  done_.step = step;
  done_.seconds = seconds_;
  done_.times = times_.totals();
  done_.spans = times_.take_spans();
  options_.calls.report(done_);
  done_ = {};
  seconds_ = 0;
}

void PipelineRunner::perform(const cluster::ReduceShard& action) {
  if (current(action.epoch, action.step, 0).is) {
    {
      const WorkTimes::Timed reducing(times_, &Times::reduce);
      squares_ = stage_.trainer->reduce();
    }
    report_leaves(action.epoch, action.step);
  }
  const std::lock_guard lock(mutex_);
  machine_.reduced(action.epoch, action.step);
  moved();
}

void PipelineRunner::perform(const cluster::ReportPrepared& action) {
  options_.calls.report(cluster::StepPrepared{action.epoch, action.step, squares_});
}

void PipelineRunner::perform(const cluster::UpdateShard& action) {
  // The step is decided: it is finished also where the next one is dealt already, or somebody without a stage
  // was lost. Of a plan whose weights come, what is changed here is replaced.
  double norm = 0;
  {
    const std::lock_guard lock(mutex_);
    norm = norm_;
  }
  {
    const WorkTimes::Timed updating(times_, &Times::update);
    stage_.trainer->update(norm);
  }
  const std::lock_guard lock(mutex_);
  machine_.updated(action.epoch, action.step);
  moved();
}

void PipelineRunner::perform(const cluster::SendTable& action) {
  const WorkTimes::Timed timed(times_, &Times::wire);
  const std::span<const std::byte> table = weights_taught(stage_).front();
  options_.calls.send_values(action.to, action.epoch, action.step, {.what = TrainValues::kTable},
                             {&table, 1});
}

void PipelineRunner::perform(const cluster::StepComplete& action) {
  if (options_.calls.on_complete) options_.calls.on_complete(action.epoch, action.step);
}

void PipelineRunner::perform(const cluster::ReportState& action) {
  const cluster::TrainPlan plan = current_plan();
  if (plan.epoch != action.epoch) return;
  if (plan.keeps_state(options_.id) && options_.id != cluster::kTrainLeader) {
    std::vector<std::span<const std::byte>> pieces;
    for (const auto& piece : weights_taught(stage_)) pieces.emplace_back(piece);
    for (const auto& piece : moments_of(stage_)) pieces.emplace_back(piece);
    options_.calls.send_values(cluster::kTrainLeader, action.epoch, action.step,
                               {.what = TrainValues::kMoments}, pieces);
  }
  options_.calls.report(cluster::TrainStateReport{action.epoch, action.step, ""});
}

}  // namespace butterfly::runtime
