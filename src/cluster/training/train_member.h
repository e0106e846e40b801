// A member of a training job: a pure state machine that knows which messages are for now, which wait, which
// are old, and what follows when the last one of a kind has come. The leader's own process has one too.
//
// A member has the weights of step() or is on the way to the next. In a step it computes its leaves and sends
// their sums to the owners; as an owner it finishes the sum of its shard, says so (prepared), and after the
// leader's word updates the shard and sends it to all.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/training/train_plan.h"

namespace butterfly::cluster {

// ---- What the shell is asked to do, in order ----

struct ReportReady {
  Epoch epoch = 0;
};
// Gradients of these leaves; answer with computed(). The weights are read meanwhile.
struct ComputeLeaves {
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t leaves = 0;  // of the step
  LeafRange range = {};
};
// All subtrees of the shard have come: their sum and its squares; answer with reduced().
struct ReduceShard {
  Epoch epoch = 0;
  uint64_t step = 0;
};
struct ReportPrepared {
  Epoch epoch = 0;
  uint64_t step = 0;
};
// Changes weights; answer with updated().
struct UpdateShard {
  Epoch epoch = 0;
  uint64_t step = 0;
};
// To all other members: the weights of `step` of the own shard.
struct SendShard {
  Epoch epoch = 0;
  uint64_t step = 0;
};
// All weights of `step` are here.
struct StepComplete {
  Epoch epoch = 0;
  uint64_t step = 0;
};
// The hash of all parameters, and of an owner its moments, to the leader.
struct ReportState {
  Epoch epoch = 0;
  uint64_t step = 0;
};
using TrainMemberAction = std::variant<ReportReady, ComputeLeaves, ReduceShard, ReportPrepared, UpdateShard,
                                       SendShard, StepComplete, ReportState>;

// What to do with values that a peer has begun to send.
enum class Arrival : uint8_t {
  kTake,    // receive them, then say that they were taken, or lost on the way
  kWait,    // what would decide has not come yet: ask again after the next event
  kDrop,    // of an epoch or step that is over: receive and forget
  kRefuse,  // no rule allows it: the link is closed
};

// Not thread-safe.
class TrainMember {
 public:
  TrainMember(TrainMemberId id, uint64_t step) : id_(id), step_(step) {}

  // ---- Orders of the leader ----
  // Of a plan whose weights come, nothing of the epochs before is used. Sums of the own shard come in so many
  // buckets.
  void plan(const TrainPlan& plan, size_t buckets = 1);
  void deal(Epoch epoch, uint64_t step, const std::vector<DealtLeaves>& deal);
  void commit(Epoch epoch, uint64_t step);
  void gather(Epoch epoch, uint64_t step);

  // ---- The shell's answers ----
  void peers_linked(Epoch epoch);  // to every member that this one exchanges values with
  void computed(Epoch epoch, uint64_t step);
  void reduced(Epoch epoch, uint64_t step);
  void updated(Epoch epoch, uint64_t step);

  // ---- Values that arrive; `from` is who sent them ----
  // The sum of a subtree, of one bucket of this member's shard.
  Arrival gradients(TrainMemberId from, Epoch epoch, uint64_t step, PairNode node, size_t bucket = 0);
  void gradients_taken(TrainMemberId from, Epoch epoch, uint64_t step, PairNode node, size_t bucket = 0);
  // Weights of `step`: all blocks of the sender's shard.
  Arrival weights(TrainMemberId from, Epoch epoch, uint64_t step, uint32_t begin, uint32_t end);
  void weights_taken(TrainMemberId from, Epoch epoch, uint64_t step);
  // Those that were begun with kTake end by one of the two.
  void weights_lost(TrainMemberId from, Epoch epoch, uint64_t step);
  // From the leader, as the plan said they would: all weights, or the moments of the shard. May begin once
  // nobody reads or writes what they replace.
  Arrival state(Epoch epoch);
  void weights_loaded(Epoch epoch);
  void moments_loaded(Epoch epoch);

  std::vector<TrainMemberAction> take_actions() { return std::exchange(actions_, {}); }

  // ---- State ----
  TrainMemberId id() const { return id_; }
  uint64_t step() const { return step_; }  // steps done: the weights that are here, whole
  Epoch epoch() const { return plan_.epoch; }
  const TrainPlan& plan() const { return plan_; }
  const OwnedShard* shard() const { return plan_.shard_of(id_); }
  const std::vector<DealtLeaves>& deal() const { return deal_; }
  // Subtrees of the step that this member, as an owner, gets from `from`.
  std::vector<PairNode> expected_from(TrainMemberId from) const;
  uint64_t old_messages() const { return old_messages_; }

 private:
  enum class Work : uint8_t { kNone, kDealt, kReducing, kPrepared, kCommitted, kUpdated };
  using Piece = std::tuple<TrainMemberId, PairNode, size_t>;  // the last: its bucket

  void begin_deal();
  void shard_came(TrainMemberId owner);
  void go_on();

  const TrainMemberId id_;
  uint64_t step_;
  TrainPlan plan_;
  size_t buckets_ = 1;
  bool linked_ = false, ready_said_ = false;
  bool weights_missing_ = false, moments_missing_ = false;
  Epoch weights_epoch_min_ = 0;  // weights of older epochs are of a state that was given up

  std::vector<DealtLeaves> deal_;
  size_t leaves_ = 0;
  std::optional<std::pair<Epoch, uint64_t>> dealt_;  // the step that deal_ is of
  Work work_ = Work::kNone;                          // of the dealt step
  std::optional<std::pair<Epoch, uint64_t>> computing_, updating_;
  bool computed_ = false;  // the own leaves of the dealt step
  std::set<Piece> pieces_expected_, pieces_begun_, pieces_taken_;

  std::set<TrainMemberId> shards_begun_, shards_came_;  // weights of step_ + 1, by owner
  size_t receiving_ = 0;                                // weights that are written by others now
  std::optional<std::pair<Epoch, uint64_t>> gather_;
  uint64_t old_messages_ = 0;
  std::vector<TrainMemberAction> actions_;
};

}  // namespace butterfly::cluster
