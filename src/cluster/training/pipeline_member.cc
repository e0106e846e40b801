#include "cluster/training/pipeline_member.h"

#include "base/check.h"

namespace butterfly::cluster {

template <typename Action>
void PipelineMember::run(const Action& action) {
  busy_ = true;
  actions_.push_back(action);
}

void PipelineMember::plan(const TrainPlan& plan) {
  if (plan.epoch <= plan_.epoch) {
    ++old_messages_;
    return;
  }
  const bool same = plan.stage_of(id_) < plan.stages.size() && plan.stages == plan_.stages && built_;
  plan_ = plan;
  built_ = same;
  building_ = linked_ = ready_said_ = false;
  weights_missing_ = plan.weights_come;
  moments_missing_ = plan.moments_come;
  dealt_.reset();
  work_ = Work::kNone;
  gather_.reset();
  // Of a plan whose weights do not come, a decided step is finished all the same.
  if (plan.weights_come || !has_stage()) {
    finishing_.reset();
    prepared_.reset();
    updated_ = table_begun_ = table_came_ = false;
    since_ = plan.epoch;
  }
  if (!has_stage()) step_ = plan.step;
  go_on();
}

void PipelineMember::peers_linked(Epoch epoch) {
  if (epoch != plan_.epoch) return;
  linked_ = true;
  go_on();
}

void PipelineMember::built(Epoch epoch) {
  busy_ = false;
  if (epoch == plan_.epoch) {
    built_ = true;
    building_ = false;
  }
  go_on();
}

void PipelineMember::deal(Epoch epoch, uint64_t step, size_t leaves) {
  if (epoch != plan_.epoch || (dealt_ && dealt_->second >= step)) {
    ++old_messages_;
    return;
  }
  dealt_ = {epoch, step};
  work_ = Work::kDealt;
  begun_ = false;
  leaves_ = leaves;
  forward_ = backward_ = added_ = 0;
  rows_begun_.clear();
  rows_came_.clear();
  if (!has_stage()) step_ = step;
  go_on();
}

// Only a neighbour sends, each micro-batch once, and no more of them than may be on their way.
Arrival PipelineMember::rows(TrainValues what, TrainMemberId from, Epoch epoch, uint64_t step, size_t index) {
  if (epoch > plan_.epoch) return Arrival::kWait;
  if (epoch < plan_.epoch) return ++old_messages_, Arrival::kDrop;
  if (!dealt_ || step > dealt_->second) return Arrival::kWait;
  if (step < dealt_->second) return ++old_messages_, Arrival::kDrop;
  if (!has_stage() || index >= leaves_) return Arrival::kRefuse;
  const size_t s = stage(), count = plan_.stages.size();
  bool allowed = false;
  switch (what) {
    case TrainValues::kForward:
      allowed = s > 0 && plan_.stages[s - 1].member == from && index < backward_ + plan_.in_flight_at(s - 1);
      break;
    case TrainValues::kBackward:
      allowed = s + 1 < count && plan_.stages[s + 1].member == from && index < forward_;
      break;
    case TrainValues::kTableRows:
      allowed = last() && plan_.table_apart() && plan_.stages[0].member == from && index < backward_;
      break;
    default:
      break;
  }
  if (!allowed || !rows_begun_.insert({what, index}).second) return Arrival::kRefuse;
  return Arrival::kTake;
}

void PipelineMember::rows_taken(TrainValues what, Epoch epoch, uint64_t step, size_t index) {
  if (dealt_ != Step{epoch, step}) return;
  rows_came_.insert({what, index});
  go_on();
}

void PipelineMember::forward_done(Epoch epoch, uint64_t step, size_t index) {
  busy_ = false;
  if (dealt_ == Step{epoch, step}) {
    BF_CHECK(index == forward_) << index;
    ++forward_;
  }
  go_on();
}

void PipelineMember::backward_done(Epoch epoch, uint64_t step, size_t index) {
  busy_ = false;
  if (dealt_ == Step{epoch, step}) {
    BF_CHECK(index == backward_) << index;
    ++backward_;
    if (last()) ++forward_;
  }
  go_on();
}

void PipelineMember::rows_added(Epoch epoch, uint64_t step, size_t) {
  busy_ = false;
  if (dealt_ == Step{epoch, step}) ++added_;
  go_on();
}

void PipelineMember::reduced(Epoch epoch, uint64_t step) {
  busy_ = false;
  if (dealt_ == Step{epoch, step} && work_ == Work::kReducing) {
    work_ = Work::kPrepared;
    prepared_ = step;
    actions_.push_back(ReportPrepared{epoch, step});
  }
  go_on();
}

void PipelineMember::commit(Epoch epoch, uint64_t step) {
  if (!has_stage()) {
    if (epoch != plan_.epoch || step != step_) {
      ++old_messages_;
      return;
    }
    ++step_;
    actions_.push_back(StepComplete{epoch, step_});
    return go_on();
  }
  if (dealt_ != Step{epoch, step} || work_ != Work::kPrepared) {
    ++old_messages_;
    return;
  }
  work_ = Work::kCommitted;
  finishing_ = {epoch, step};
  updated_ = false;
  run(UpdateShard{epoch, step});
}

void PipelineMember::updated(Epoch epoch, uint64_t step) {
  busy_ = false;
  if (finishing_ == Step{epoch, step}) {
    updated_ = true;
    if (last() && plan_.table_apart())
      actions_.push_back(SendTable{epoch, step + 1, plan_.stages.front().member});
  }
  go_on();
}

Arrival PipelineMember::table(TrainMemberId from, Epoch epoch, uint64_t step) {
  if (epoch > plan_.epoch) return Arrival::kWait;
  if (epoch < since_ || step <= step_) return ++old_messages_, Arrival::kDrop;
  if (!first() || !plan_.table_apart() || plan_.stages.back().member != from || step != step_ + 1 ||
      table_begun_)
    return Arrival::kRefuse;
  // Whoever sends it has seen this step decided, so nothing here reads the table any more; that it was this
  // stage's work too is known only here.
  if (prepared_ != step_) return Arrival::kWait;
  table_begun_ = true;
  ++receiving_;
  return Arrival::kTake;
}

void PipelineMember::table_ended(Epoch epoch, uint64_t step, bool whole) {
  --receiving_;
  if (epoch >= since_ && step == step_ + 1 && whole) table_came_ = true;
  go_on();
}

void PipelineMember::complete_if_done() {
  if (!finishing_ || !updated_ || (first() && plan_.table_apart() && !table_came_)) return;
  step_ = finishing_->second + 1;
  finishing_.reset();
  updated_ = table_begun_ = table_came_ = false;
  actions_.push_back(StepComplete{plan_.epoch, step_});
}

Arrival PipelineMember::state(Epoch epoch) {
  if (epoch < plan_.epoch) return ++old_messages_, Arrival::kDrop;
  if (epoch > plan_.epoch || busy_ || !built_ || receiving_ > 0) return Arrival::kWait;
  return weights_missing_ || moments_missing_ ? Arrival::kTake : Arrival::kRefuse;
}

void PipelineMember::weights_loaded(Epoch epoch) {
  if (epoch != plan_.epoch || !weights_missing_) return;
  weights_missing_ = false;
  step_ = plan_.step;
  go_on();
}

void PipelineMember::moments_loaded(Epoch epoch) {
  if (epoch != plan_.epoch) return;
  moments_missing_ = false;
  go_on();
}

void PipelineMember::gather(Epoch epoch, uint64_t step) {
  if (epoch != plan_.epoch) {
    ++old_messages_;
    return;
  }
  gather_ = {epoch, step};
  go_on();
}

void PipelineMember::go_on() {
  complete_if_done();
  if (has_stage() && !built_ && !building_ && !busy_ && receiving_ == 0) {
    building_ = true;
    run(BuildStage{plan_.epoch});
  }
  const bool whole = !has_stage() || (built_ && !weights_missing_ && !moments_missing_);
  if (!ready_said_ && linked_ && whole && step_ == plan_.step) {
    ready_said_ = true;
    actions_.push_back(ReportReady{plan_.epoch});
  }
  run_next();
  if (gather_ && (!has_stage() || (gather_->second == step_ && !busy_ && receiving_ == 0))) {
    actions_.push_back(ReportState{gather_->first, gather_->second});
    gather_.reset();
  }
}

void PipelineMember::run_next() {
  if (busy_ || work_ != Work::kDealt || !dealt_ || dealt_->second != step_ || !has_stage()) return;
  const auto [epoch, step] = *dealt_;
  if (!begun_) {
    begun_ = true;
    actions_.push_back(BeginStage{epoch, step, leaves_});
  }
  const auto came = [&](TrainValues what, size_t index) { return rows_came_.contains({what, index}); };
  if (last()) {
    if (backward_ < leaves_ && (first() || came(TrainValues::kForward, backward_)))
      return run(RunBackward{epoch, step, backward_});
    if (plan_.table_apart() && added_ < leaves_ && came(TrainValues::kTableRows, added_))
      return run(AddTableRows{epoch, step, added_});
    if (backward_ == leaves_ && (added_ == leaves_ || !plan_.table_apart())) {
      work_ = Work::kReducing;
      run(ReduceShard{epoch, step});
    }
    return;
  }
  if (backward_ < forward_ && came(TrainValues::kBackward, backward_))
    return run(RunBackward{epoch, step, backward_});
  if (forward_ < leaves_ && in_flight() < plan_.in_flight_at(stage()) &&
      (first() || came(TrainValues::kForward, forward_)))
    return run(RunForward{epoch, step, forward_});
  if (backward_ == leaves_) {
    work_ = Work::kReducing;
    run(ReduceShard{epoch, step});
  }
}

}  // namespace butterfly::cluster
