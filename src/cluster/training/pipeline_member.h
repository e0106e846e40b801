// A member of a training job whose network is cut into stages: a pure state machine that says which
// micro-batch goes forward or backward next, and what is to be done with values that arrive.
//
// One forward, one backward (1F1B): a micro-batch that came back goes before one that goes forward, and at
// most TrainPlan::in_flight_at() of them are on their way at a stage. The last stage takes each back at once.
// Where head and embedding share a table, the first stage sends the gradients of its rows to the last, which
// has the table's gradient of that micro-batch and adds them behind it, as one machine does; after the update
// the table comes back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/training/train_member.h"
#include "cluster/training/train_message.h"

namespace butterfly::cluster {

// ---- What the shell is asked to do, one behind the other; those of a stage are answered before the next
// ----

// The network of the plan's stage, with room for its weights; answer with built(). Without a stage: nothing.
struct BuildStage {
  Epoch epoch = 0;
};
// Before the first micro-batch of a step.
struct BeginStage {
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t leaves = 0;
};
// Answer with forward_done(), after the rows are on their way to the stage behind.
struct RunForward {
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t index = 0;
};
// Of the last stage: forward and backward. Answer with backward_done().
struct RunBackward {
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t index = 0;
};
// Rows of the table's gradients have come; answer with rows_added().
struct AddTableRows {
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t index = 0;
};
// To the first stage, as it was when the step was decided.
struct SendTable {
  Epoch epoch = 0;
  uint64_t step = 0;
  TrainMemberId to = 0;
};
using PipelineAction =
    std::variant<ReportReady, BuildStage, BeginStage, RunForward, RunBackward, AddTableRows, ReduceShard,
                 ReportPrepared, UpdateShard, SendTable, StepComplete, ReportState>;

// Not thread-safe.
class PipelineMember {
 public:
  PipelineMember(TrainMemberId id, uint64_t step) : id_(id), step_(step) {}

  // ---- Orders of the leader ----
  void plan(const TrainPlan& plan);
  void deal(Epoch epoch, uint64_t step, size_t leaves);
  void commit(Epoch epoch, uint64_t step);
  void gather(Epoch epoch, uint64_t step);

  // ---- The shell's answers ----
  void peers_linked(Epoch epoch);
  void built(Epoch epoch);
  void forward_done(Epoch epoch, uint64_t step, size_t index);
  void backward_done(Epoch epoch, uint64_t step, size_t index);
  void rows_added(Epoch epoch, uint64_t step, size_t index);
  void reduced(Epoch epoch, uint64_t step);
  void updated(Epoch epoch, uint64_t step);

  // ---- Values that arrive ----
  // kForward, kBackward, kTableRows: received into memory of their own.
  Arrival rows(TrainValues what, TrainMemberId from, Epoch epoch, uint64_t step, size_t index);
  void rows_taken(TrainValues what, Epoch epoch, uint64_t step, size_t index);
  // The table of `step`, in place: those begun with kTake end by table_ended().
  Arrival table(TrainMemberId from, Epoch epoch, uint64_t step);
  void table_ended(Epoch epoch, uint64_t step, bool whole);
  // From the leader, as the plan said they would.
  Arrival state(Epoch epoch);
  void weights_loaded(Epoch epoch);
  void moments_loaded(Epoch epoch);

  std::vector<PipelineAction> take_actions() { return std::exchange(actions_, {}); }

  // ---- State ----
  TrainMemberId id() const { return id_; }
  uint64_t step() const { return step_; }
  Epoch epoch() const { return plan_.epoch; }
  const TrainPlan& plan() const { return plan_; }
  size_t stage() const { return plan_.stage_of(id_); }
  bool has_stage() const { return stage() < plan_.stages.size(); }
  bool first() const { return has_stage() && stage() == 0; }
  bool last() const { return has_stage() && stage() + 1 == plan_.stages.size(); }
  bool busy() const { return busy_; }
  // Forward passes whose micro-batch has not come back.
  size_t in_flight() const { return forward_ - backward_; }
  uint64_t old_messages() const { return old_messages_; }

 private:
  using Step = std::pair<Epoch, uint64_t>;
  enum class Work : uint8_t { kNone, kDealt, kReducing, kPrepared, kCommitted };

  void go_on();
  void run_next();
  void complete_if_done();
  template <typename Action>
  void run(const Action& action);

  const TrainMemberId id_;
  uint64_t step_;
  TrainPlan plan_;
  bool linked_ = false, ready_said_ = false, built_ = false, building_ = false;
  bool weights_missing_ = false, moments_missing_ = false;
  bool busy_ = false;     // the computing thread has an action of a stage
  size_t receiving_ = 0;  // tables that are written by others now

  std::optional<Step> dealt_;
  Work work_ = Work::kNone;  // of the dealt step
  bool begun_ = false;       // BeginStage was said
  size_t leaves_ = 0;
  size_t forward_ = 0, backward_ = 0, added_ = 0;  // micro-batches that are over
  std::set<std::pair<TrainValues, size_t>> rows_begun_, rows_came_;

  std::optional<uint64_t> prepared_;  // the last step whose sum is here
  Epoch since_ = 0;                   // stages and weights are those of this epoch
  std::optional<Step> finishing_;     // decided; not all of it is here yet
  bool updated_ = false, table_begun_ = false, table_came_ = false;  // of the step that is finished
  std::optional<Step> gather_;
  uint64_t old_messages_ = 0;
  std::vector<PipelineAction> actions_;
};

}  // namespace butterfly::cluster
