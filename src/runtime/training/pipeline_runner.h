// A member that has a stage of the network: the state machine, the stage's trainer, and rows on their way
// between stages.
#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/training/pipeline_member.h"
#include "runtime/training/member_work.h"
#include "runtime/training/pipeline_stage.h"
#include "tensor/pooled_array.h"

namespace butterfly::runtime {

class PipelineRunner final : public MemberWork {
 public:
  struct Options {
    cluster::TrainMemberId id = 0;
    uint64_t step = 0;  // steps done
    std::shared_ptr<const PipelineSource> source = {};
    MemberCalls calls = {};
  };
  explicit PipelineRunner(Options options);

  void plan(const cluster::TrainPlan& plan) override;
  void peers_linked(cluster::Epoch epoch) override;
  void deal(const cluster::DealtStep& step, MemberInputs inputs) override;
  void commit(const cluster::CommitDealtStep& commit) override;
  void gather(const cluster::GatherTrainState& gather) override;
  Result<Taken> receive(TrainLink& link, cluster::TrainMemberId from, const TrainLink::Incoming& incoming,
                        bool patient) override;
  uint64_t step() const override;
  cluster::TrainPlan current_plan() const override;

  // Of the computing thread, once a plan's stage is built: for the leader, whose own state goes no link.
  const PipelineStageNetwork& stage() const { return stage_; }
  bool has_stage() const { return stage_.trainer != nullptr; }

 private:
  using RowsKey = std::pair<cluster::TrainValues, size_t>;
  using Rows = PooledArray<std::byte>;

  cluster::Arrival may_load(cluster::Epoch epoch) override { return machine_.state(epoch); }
  void loaded(const cluster::TrainPlan& plan) override;
  void moved();

  void perform(const cluster::ReportReady& action);
  void perform(const cluster::BuildStage& action);
  void perform(const cluster::BeginStage& action);
  void perform(const cluster::RunForward& action);
  void perform(const cluster::RunBackward& action);
  void perform(const cluster::AddTableRows& action);
  void perform(const cluster::ReduceShard& action);
  void perform(const cluster::ReportPrepared& action);
  void perform(const cluster::UpdateShard& action);
  void perform(const cluster::SendTable& action);
  void perform(const cluster::StepComplete& action);
  void perform(const cluster::ReportState& action);

  // Whether an action is of the plan and step that still hold; then with the batch of its micro-batch.
  struct Current {
    bool is = false;
    cluster::TrainPlan plan;
    train::MicroBatch batch;
    std::shared_ptr<const void> keep;
  };
  Current current(cluster::Epoch epoch, uint64_t step, size_t index);
  Rows take_rows(cluster::TrainValues what, size_t index);
  void send_rows(cluster::TrainMemberId to, cluster::TrainValues what, cluster::Epoch epoch, uint64_t step,
                 size_t index, std::span<const float> rows);
  void report_leaves(cluster::Epoch epoch, uint64_t step);
  Result<Taken> receive_rows(TrainLink& link, cluster::TrainMemberId from,
                             const TrainLink::Incoming& incoming, bool patient);
  Result<Taken> receive_table(TrainLink& link, cluster::TrainMemberId from,
                              const TrainLink::Incoming& incoming, bool patient);
  Result<Taken> receive_state(TrainLink& link, const TrainLink::Incoming& incoming, bool patient);
  template <typename Work>
  void timed(Work work);

  const Options options_;
  cluster::PipelineMember machine_;  // with the mutex, and what follows

  cluster::DealtStep dealt_;
  TimePoint dealt_at_;
  MemberInputs inputs_;
  std::map<RowsKey, Rows> rows_;  // that came; at most those in flight
  double norm_ = 0;
  size_t row_bytes_ = 0;                  // of the stage
  BytePieces weights_, moments_, table_;  // where they lie in the stage

  // Of the computing thread.
  PipelineStageNetwork stage_;
  std::vector<float> squares_;
  cluster::LeavesDone done_;
  double seconds_ = 0;
};

}  // namespace butterfly::runtime
