#include "cluster/training/train_member.h"

#include <algorithm>

namespace butterfly::cluster {

void TrainMember::plan(const TrainPlan& plan, size_t buckets) {
  if (plan.epoch <= plan_.epoch) {
    ++old_messages_;
    return;
  }
  plan_ = plan;
  buckets_ = buckets;
  linked_ = ready_said_ = false;
  deal_.clear();
  dealt_.reset();
  work_ = Work::kNone;
  pieces_expected_.clear();
  pieces_begun_.clear();
  pieces_taken_.clear();
  gather_.reset();
  weights_missing_ = plan.weights_come;
  moments_missing_ = plan.moments_come;
  if (plan.weights_come) {
    weights_epoch_min_ = plan.epoch;
    shards_begun_.clear();
    shards_came_.clear();
  }
  go_on();
}

void TrainMember::peers_linked(Epoch epoch) {
  if (epoch != plan_.epoch) return;
  linked_ = true;
  go_on();
}

std::vector<PairNode> TrainMember::expected_from(TrainMemberId from) const {
  for (const DealtLeaves& dealt : deal_)
    if (dealt.member == from) return PairTree(leaves_).subtrees(dealt.leaves, plan_.level_max(leaves_));
  return {};
}

void TrainMember::deal(Epoch epoch, uint64_t step, const std::vector<DealtLeaves>& deal) {
  if (epoch != plan_.epoch || (dealt_ && dealt_->second >= step)) {
    ++old_messages_;
    return;
  }
  deal_ = deal;
  leaves_ = 0;
  for (const DealtLeaves& dealt : deal) leaves_ = std::max(leaves_, dealt.leaves.end);
  dealt_ = {epoch, step};
  work_ = Work::kDealt;
  computed_ = false;
  pieces_expected_.clear();
  pieces_begun_.clear();
  pieces_taken_.clear();
  if (shard() != nullptr)
    for (const DealtLeaves& dealt : deal_)
      for (const PairNode node : expected_from(dealt.member))
        for (size_t bucket = 0; bucket < buckets_; ++bucket)
          pieces_expected_.insert({dealt.member, node, bucket});
  go_on();
}

void TrainMember::computed(Epoch epoch, uint64_t step) {
  computing_.reset();
  if (dealt_ == std::pair{epoch, step}) computed_ = true;
  go_on();
}

Arrival TrainMember::gradients(TrainMemberId from, Epoch epoch, uint64_t step, PairNode node, size_t bucket) {
  if (epoch > plan_.epoch) return Arrival::kWait;
  if (epoch < plan_.epoch) return ++old_messages_, Arrival::kDrop;
  if (!dealt_ || step > dealt_->second) return Arrival::kWait;
  if (step < dealt_->second) return ++old_messages_, Arrival::kDrop;
  const Piece piece{from, node, bucket};
  if (!pieces_expected_.contains(piece) || !pieces_begun_.insert(piece).second) return Arrival::kRefuse;
  return Arrival::kTake;
}

void TrainMember::gradients_taken(TrainMemberId from, Epoch epoch, uint64_t step, PairNode node,
                                  size_t bucket) {
  if (dealt_ != std::pair{epoch, step}) return;
  pieces_taken_.insert({from, node, bucket});
  go_on();
}

void TrainMember::reduced(Epoch epoch, uint64_t step) {
  if (dealt_ != std::pair{epoch, step} || work_ != Work::kReducing) return;
  work_ = Work::kPrepared;
  actions_.push_back(ReportPrepared{epoch, step});
}

void TrainMember::commit(Epoch epoch, uint64_t step) {
  if (dealt_ != std::pair{epoch, step} || work_ != Work::kPrepared) {
    ++old_messages_;
    return;
  }
  work_ = Work::kCommitted;
  updating_ = {epoch, step};
  actions_.push_back(UpdateShard{epoch, step});
}

void TrainMember::updated(Epoch epoch, uint64_t step) {
  updating_.reset();
  if (dealt_ == std::pair{epoch, step} && work_ == Work::kCommitted && step == step_) {
    work_ = Work::kUpdated;
    actions_.push_back(SendShard{epoch, step + 1});
    shard_came(id_);
  }
  go_on();
}

Arrival TrainMember::weights(TrainMemberId from, Epoch epoch, uint64_t step, uint32_t begin, uint32_t end) {
  if (epoch > plan_.epoch) return Arrival::kWait;
  if (epoch < weights_epoch_min_ || step <= step_) return ++old_messages_, Arrival::kDrop;
  // Shards stay the same through epochs whose weights do not come: only such ones are between.
  const OwnedShard* shard = plan_.shard_of(from);
  if (shard == nullptr || shard->begin != begin || shard->end != end || step > step_ + 1)
    return step > step_ + 1 && weights_missing_ ? Arrival::kWait : Arrival::kRefuse;
  if (weights_missing_) return Arrival::kWait;
  // Nobody updates before all have computed: a correct owner never comes in between.
  if (computing_) return Arrival::kRefuse;
  if (!shards_begun_.insert(from).second) return Arrival::kRefuse;
  ++receiving_;
  return Arrival::kTake;
}

void TrainMember::weights_taken(TrainMemberId from, Epoch epoch, uint64_t step) {
  --receiving_;
  if (epoch >= weights_epoch_min_ && step == step_ + 1) shard_came(from);
  go_on();
}

void TrainMember::weights_lost(TrainMemberId, Epoch, uint64_t) {
  --receiving_;
  go_on();
}

void TrainMember::shard_came(TrainMemberId owner) {
  shards_came_.insert(owner);
  for (const OwnedShard& shard : plan_.shards)
    if (!shards_came_.contains(shard.owner)) return;
  ++step_;
  shards_begun_.clear();
  shards_came_.clear();
  actions_.push_back(StepComplete{plan_.epoch, step_});
}

Arrival TrainMember::state(Epoch epoch) {
  if (epoch < plan_.epoch) return ++old_messages_, Arrival::kDrop;
  if (epoch > plan_.epoch || computing_ || updating_ || receiving_ > 0) return Arrival::kWait;
  return weights_missing_ || moments_missing_ ? Arrival::kTake : Arrival::kRefuse;
}

void TrainMember::weights_loaded(Epoch epoch) {
  if (epoch != plan_.epoch || !weights_missing_) return;
  weights_missing_ = false;
  step_ = plan_.step;
  go_on();
}

void TrainMember::moments_loaded(Epoch epoch) {
  if (epoch != plan_.epoch) return;
  moments_missing_ = false;
  go_on();
}

void TrainMember::gather(Epoch epoch, uint64_t step) {
  if (epoch != plan_.epoch) {
    ++old_messages_;
    return;
  }
  gather_ = {epoch, step};
  go_on();
}

void TrainMember::go_on() {
  if (!ready_said_ && linked_ && !weights_missing_ && !moments_missing_ && step_ == plan_.step) {
    ready_said_ = true;
    actions_.push_back(ReportReady{plan_.epoch});
  }
  begin_deal();
  if (work_ == Work::kDealt && computed_ && shard() != nullptr && pieces_taken_ == pieces_expected_) {
    work_ = Work::kReducing;
    actions_.push_back(ReduceShard{dealt_->first, dealt_->second});
  }
  if (gather_ && gather_->second == step_ && receiving_ == 0) {
    actions_.push_back(ReportState{gather_->first, gather_->second});
    gather_.reset();
  }
}

void TrainMember::begin_deal() {
  if (work_ != Work::kDealt || computed_ || computing_ || dealt_->second != step_ || receiving_ > 0) return;
  LeafRange own;
  for (const DealtLeaves& dealt : deal_)
    if (dealt.member == id_) own = dealt.leaves;
  computing_ = dealt_;
  actions_.push_back(ComputeLeaves{dealt_->first, dealt_->second, leaves_, own});
}

}  // namespace butterfly::cluster
