// A member of a training job at work: the state machine, the trainer, and values on their way in and out. The
// leader's process has one, and every worker.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/training/train_member.h"
#include "cluster/training/train_message.h"
#include "runtime/training/step_times.h"
#include "runtime/training/train_link.h"
#include "runtime/training/value_packer.h"
#include "train/trainer/trainer.h"

namespace butterfly::runtime {

// Micro-batches of this member, and what keeps them alive.
struct MemberInputs {
  std::vector<train::MicroBatch> batches;
  std::shared_ptr<const void> keep;
};

inline train::Shard shard_of(const cluster::OwnedShard& owned) { return {owned.begin, owned.end}; }
// Where the weights of a shard lie.
std::vector<std::span<std::byte>> weight_pieces(train::Trainer& trainer, const train::Shard& shard);
// What a member keeps for all: the optimizer's arrays of its shard, then residuals of its slots. `moments`
// and `residuals` are whole arrays, of the trainer or of a copy.
template <typename Array>
std::vector<Array> kept_pieces(const train::ParameterLayout& layout, const cluster::TrainPlan& plan,
                               cluster::TrainMemberId id, std::span<const Array> moments,
                               std::span<const Array> residuals) {
  std::vector<Array> pieces;
  if (const cluster::OwnedShard* owned = plan.shard_of(id)) {
    const train::Shard shard = shard_of(*owned);
    for (const Array& array : moments) {
      const size_t element = array.size() / layout.total();
      pieces.push_back(
          array.subspan(layout.shard_offset(shard) * element, layout.shard_floats(shard) * element));
    }
  }
  if (const cluster::HeldSlots* held = plan.held_by(id))
    for (size_t slot = held->begin; slot < held->end; ++slot) pieces.push_back(residuals[slot]);
  return pieces;
}
std::vector<std::span<std::byte>> kept_pieces(train::Trainer& trainer, const cluster::TrainPlan& plan,
                                              cluster::TrainMemberId id);
inline size_t bytes_of(Pieces pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

// One thread computes: it calls run_one() again and again, and everything that takes long or changes weights
// happens there, but for values that arrive, which readers of links put where they belong (receive()). Orders
// come from any thread and are decided at once. Jobs of others on the same thread go through post().
class MemberRunner {
 public:
  struct Options {
    cluster::TrainMemberId id = 0;
    train::Trainer* trainer = nullptr;  // borrowed; of the computing thread
    cluster::PackingOptions packing = {};
    // All on the computing thread. What cannot be sent is the link's business: it ends, and the leader knows.
    std::function<void(const cluster::ToTrainLead& report)> report = {};
    std::function<void(cluster::TrainMemberId to, cluster::Epoch epoch, uint64_t step,
                       const cluster::ValuesHead& head, ConstPieces pieces)>
        send_values = {};
    // The leader's own: all weights of this step are here.
    std::function<void(cluster::Epoch epoch, uint64_t step)> on_complete = {};
  };
  explicit MemberRunner(Options options);

  // ---- Orders, from any thread ----
  void plan(const cluster::TrainPlan& plan);
  void peers_linked(cluster::Epoch epoch);
  void deal(const cluster::DealtStep& step, MemberInputs inputs);
  void commit(const cluster::CommitDealtStep& commit);
  void gather(const cluster::GatherTrainState& gather);

  // ---- Values, on the thread that reads their link ----
  // Waits while the machine says so. Errors end the link: kCorrupt for what no rule allows.
  Status receive(TrainLink& link, cluster::TrainMemberId from, const TrainLink::Incoming& incoming);
  // The leader's own state from its snapshot: `copy` is called on the computing thread once nobody uses what
  // it replaces, unless another plan came meanwhile.
  void load_state(const cluster::TrainPlan& plan, std::function<void()> copy);

  // ---- The computing thread ----
  void post(std::function<void()> job);
  // Waits for a job and does it. False: there was none in time, or stop() was called.
  bool run_one(Duration timeout);
  // Ends every wait. From any thread.
  void stop();
  bool stopped() const;

  uint64_t step() const;
  cluster::TrainPlan current_plan() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Queues what the machine wants, and wakes all who wait. With the lock.
  void moved();
  // The machine's answer once it is not kWait any more; kDrop when all is over.
  template <typename Ask>
  cluster::Arrival wait_for(Lock& lock, Ask ask);

  void perform(const cluster::ReportReady& action);
  void perform(const cluster::ComputeLeaves& action);
  void perform(const cluster::ReduceShard& action);
  void perform(const cluster::ReportPrepared& action);
  void perform(const cluster::UpdateShard& action);
  void perform(const cluster::SendShard& action);
  void perform(const cluster::StepComplete& action);
  void perform(const cluster::ReportState& action);
  ConstPieces prepare(ValuePacker& packer, cluster::ValuesHead& head, ConstPieces pieces, size_t planes);
  void send_packed(ValuePacker& packer, cluster::TrainMemberId to, cluster::Epoch epoch, uint64_t step,
                   const cluster::ValuesHead& head, ConstPieces pieces);
  void send_gradients(const cluster::TrainPlan& plan, cluster::Epoch epoch, uint64_t step,
                      const train::LeafSums::Subtree& subtree);
  void add_piece(cluster::TrainMemberId from, cluster::Epoch epoch, uint64_t step, PairNode node,
                 train::GradientSum sum);

  Status receive_gradients(TrainLink& link, cluster::TrainMemberId from, const TrainLink::Incoming& incoming);
  Status receive_weights(TrainLink& link, cluster::TrainMemberId from, const TrainLink::Incoming& incoming);
  Status receive_state(TrainLink& link, const TrainLink::Incoming& incoming);
  Status refuse(TrainLink& link, const TrainLink::Incoming& incoming, const std::string& why) const;

  std::vector<std::span<std::byte>> weight_pieces(const train::Shard& shard) const {
    return runtime::weight_pieces(trainer_, shard);
  }

  const Options options_;
  train::Trainer& trainer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  cluster::TrainMember machine_;
  std::deque<std::function<void()>> jobs_;  // at most what a step has: pieces of members and a few actions

  // Of the dealt step.
  cluster::DealtStep dealt_;
  TimePoint dealt_at_;
  MemberInputs inputs_;
  std::shared_ptr<train::GradientTree> tree_;  // of the own shard, for this epoch
  double norm_ = 0;

  // Of the computing thread.
  train::GradientSum sum_;  // of the own shard
  std::vector<float> squares_;
  ThreadPool adding_{1};
  StepTimes times_;
  uint64_t gradient_bytes_ = 0;  // of those that were sent, as floats
  ValuePacker gradients_, weights_;
};

// For the pieces of a message.
inline std::vector<std::span<const std::byte>> const_pieces(const std::vector<std::span<std::byte>>& pieces) {
  return {pieces.begin(), pieces.end()};
}

}  // namespace butterfly::runtime
