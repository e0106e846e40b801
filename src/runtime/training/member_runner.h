// A member that has the whole network: the state machine, the trainer, and values on their way in and out.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/training/train_member.h"
#include "cluster/training/train_message.h"
#include "runtime/training/gradient_buckets.h"
#include "runtime/training/member_work.h"
#include "runtime/training/value_packer.h"
#include "runtime/training/value_sender.h"
#include "train/trainer/trainer.h"

namespace butterfly::runtime {

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

// Gradients go out bucket by bucket while the backward pass computes those before: a thread of its own sends
// them (ValueSender). New weights are sent by the computing thread, which has nothing else to do by then, to
// all at once, while it takes those of others (LinkReaders).
class MemberRunner final : public MemberWork {
 public:
  struct Options {
    cluster::TrainMemberId id = 0;
    train::Trainer* trainer = nullptr;  // borrowed; of the computing thread
    cluster::PackingOptions packing = {};
    size_t bucket_bytes = 4 << 20;  // of floats; all members have the same
    MemberCalls calls = {};
  };
  explicit MemberRunner(Options options);

  void plan(const cluster::TrainPlan& plan) override;
  void peers_linked(cluster::Epoch epoch) override;
  void deal(const cluster::DealtStep& step, MemberInputs inputs) override;
  void commit(const cluster::CommitDealtStep& commit) override;
  void gather(const cluster::GatherTrainState& gather) override;
  void cut(const cluster::CutDealtStep& cut) override;
  Result<Taken> receive(TrainLink& link, cluster::TrainMemberId from, const TrainLink::Incoming& incoming,
                        bool patient) override;
  uint64_t step() const override;
  cluster::TrainPlan current_plan() const override;
  void stop() override;
  void end_sending() override { sender_.join(); }

 private:
  // Queues what the machine wants, and wakes all who wait. With the lock.
  void moved();
  cluster::Arrival may_load(cluster::Epoch epoch) override { return machine_.state(epoch); }
  void loaded(const cluster::TrainPlan& plan) override;
  SendingSeconds sending() const override { return sender_.seconds(); }

  void perform(const cluster::ReportReady& action);
  void perform(const cluster::ComputeLeaves& action);
  void perform(const cluster::ReduceShard& action);
  void perform(const cluster::ReportPrepared& action);
  void perform(const cluster::UpdateShard& action);
  void perform(const cluster::SendShard& action);
  void perform(const cluster::StepComplete& action);
  void perform(const cluster::ReportState& action);
  ConstPieces prepare(ValuePacker& packer, cluster::ValuesHead& head, ConstPieces pieces, size_t planes);
  void send_gradients(const OwnedBucket& bucket, cluster::Epoch epoch, uint64_t step,
                      const train::LeafSubtree& subtree);
  void add_piece(cluster::TrainMemberId from, cluster::Epoch epoch, uint64_t step, PairNode node,
                 size_t bucket, train::GradientSum sum);
  void report_leaves(cluster::LeavesDone done);

  Result<Taken> receive_gradients(TrainLink& link, cluster::TrainMemberId from,
                                  const TrainLink::Incoming& incoming, bool patient);
  Result<Taken> receive_weights(TrainLink& link, cluster::TrainMemberId from,
                                const TrainLink::Incoming& incoming, bool patient);
  Result<Taken> receive_state(TrainLink& link, cluster::TrainMemberId from,
                              const TrainLink::Incoming& incoming, bool patient);
  // All that one message of state has. With the lock.
  void state_came(cluster::Epoch epoch, bool weights, const train::Shard& blocks);
  // The blocks of these weights that came go to those behind in the tree, once there are links to them.
  void pass_on(cluster::Epoch epoch, const train::Shard& blocks);

  std::vector<std::span<std::byte>> weight_pieces(const train::Shard& shard) const {
    return runtime::weight_pieces(trainer_, shard);
  }

  const Options options_;
  train::Trainer& trainer_;
  cluster::TrainMember machine_;

  // Of the dealt step.
  cluster::DealtStep dealt_;
  TimePoint dealt_at_;
  MemberInputs inputs_;
  // Of the epoch: those of all shards, and the sums of the own one.
  std::vector<OwnedBucket> buckets_;
  std::shared_ptr<BucketSums> sums_;
  // Of the epoch's new weights: blocks that are here, and parts that wait for links to be passed on.
  size_t blocks_came_ = 0;
  bool linked_ = false;
  std::vector<train::Shard> to_pass_;
  // Threads that write state now, and of which epoch: those of the next one wait for them.
  size_t loading_ = 0;
  cluster::Epoch loading_epoch_ = 0;
  double norm_ = 0, scale_ = 1;
  std::atomic<bool> cut_ = false;  // the dealt step

  // Of the computing thread.
  std::shared_ptr<BucketSums> reducing_;  // what the sums below are of
  std::vector<train::GradientSum> reduced_;
  std::vector<float> squares_;
  ThreadPool adding_{1};
  const double cpu_before_ = process_cpu_seconds();
  uint64_t gradient_bytes_ = 0;  // of those that were sent, as floats
  ValuePacker weights_;
  ValueSender sender_;  // the last one: its thread uses the others
};

// For the pieces of a message.
inline std::vector<std::span<const std::byte>> const_pieces(const std::vector<std::span<std::byte>>& pieces) {
  return {pieces.begin(), pieces.end()};
}

}  // namespace butterfly::runtime
