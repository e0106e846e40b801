#include "runtime/training/member_runner.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "runtime/training/member_network.h"

namespace butterfly::runtime {

using cluster::Arrival;
using Times = cluster::TrainTimes;
using cluster::TrainValues;

std::vector<std::span<std::byte>> weight_pieces(train::Trainer& trainer, const train::Shard& shard) {
  std::vector<std::span<std::byte>> pieces;
  for (const train::NormBlock& run : trainer.layout().runs(shard))
    pieces.emplace_back(trainer.layout().parameter(run.parameter).value.raw() + run.first * sizeof(float),
                        run.count * sizeof(float));
  return pieces;
}

std::vector<std::span<std::byte>> kept_pieces(train::Trainer& trainer, const cluster::TrainPlan& plan,
                                              cluster::TrainMemberId id) {
  std::vector<std::span<std::byte>> moments, residuals(trainer.slots());
  for (const train::StateArray& array : trainer.optimizer_state()) moments.push_back(array.bytes);
  // Only those that are kept here: others take no memory.
  if (const cluster::HeldSlots* held = plan.held_by(id)) {
    size_t slot = held->begin;
    for (const train::StateArray& array : trainer.residuals(held->begin, held->end))
      residuals[slot++] = array.bytes;
  }
  return kept_pieces<std::span<std::byte>>(trainer.layout(), plan, id, moments, residuals);
}

MemberRunner::MemberRunner(Options options)
    : options_(std::move(options)),
      trainer_(*options_.trainer),
      machine_(options_.id, trainer_.step_count()),
      gradients_(options_.packing),
      weights_(options_.packing) {}

// ---- Orders ----

void MemberRunner::moved() {
  for (cluster::TrainMemberAction& action : machine_.take_actions())
    jobs_.push_back(
        [this, action = std::move(action)] { std::visit([this](const auto& it) { perform(it); }, action); });
  changed_.notify_all();
}

void MemberRunner::plan(const cluster::TrainPlan& plan) {
  const std::lock_guard lock(mutex_);
  const size_t blocks = trainer_.layout().blocks().size();
  if (plan.shards.empty() || plan.shards.back().end != blocks)
    fail(Errc::kCorrupt, "[training plan] shards end at block {}, the parameters have {}",
         plan.shards.empty() ? 0 : plan.shards.back().end, blocks);
  const bool coded = trainer_.wire().mode() != train::WireMode::kExact;
  const bool kept = train::has_residuals(trainer_.wire().mode());
  if (plan.slots != (coded ? trainer_.slots() : 0) || plan.held.empty() == kept)
    fail(Errc::kCorrupt, "[training plan] {} slots, {} members hold some; wire_mode {} has {}", plan.slots,
         plan.held.size(), train::wire_mode_name(trainer_.wire().mode()), coded ? trainer_.slots() : 0);
  machine_.plan(plan);
  // A new one: the computing thread may still be inside that of the epoch before.
  const cluster::OwnedShard* own = machine_.shard();
  tree_ = own == nullptr
              ? nullptr
              : std::make_shared<train::GradientTree>(trainer_.layout().shard_floats(shard_of(*own)));
  moved();
}

void MemberRunner::peers_linked(cluster::Epoch epoch) {
  const std::lock_guard lock(mutex_);
  machine_.peers_linked(epoch);
  moved();
}

void MemberRunner::deal(const cluster::DealtStep& step, MemberInputs inputs) {
  const std::lock_guard lock(mutex_);
  if (step.epoch == machine_.epoch()) {
    const size_t leaves = step.deal.back().leaves.end;
    const uint32_t level = machine_.plan().level_max(leaves);
    for (const cluster::DealtLeaves& dealt : step.deal)
      if (level < PairTree::kLevelsMax && dealt.leaves.begin != leaves &&
          dealt.leaves.begin % (size_t{1} << level) != 0)
        fail(Errc::kCorrupt, "[dealt step] leaves from {} on begin inside a slot of {}", dealt.leaves.begin,
             size_t{1} << level);
    dealt_ = step;
    dealt_at_ = system_now();
    inputs_ = std::move(inputs);
    if (tree_ != nullptr) tree_->begin(step.deal.back().leaves.end);
  }
  machine_.deal(step.epoch, step.step, step.deal);
  moved();
}

void MemberRunner::commit(const cluster::CommitDealtStep& commit) {
  const std::lock_guard lock(mutex_);
  norm_ = commit.norm;
  machine_.commit(commit.epoch, commit.step);
  moved();
}

void MemberRunner::gather(const cluster::GatherTrainState& gather) {
  const std::lock_guard lock(mutex_);
  machine_.gather(gather.epoch, gather.step);
  moved();
}

// ---- Values that arrive ----

Status MemberRunner::receive(TrainLink& link, cluster::TrainMemberId from,
                             const TrainLink::Incoming& incoming) {
  switch (incoming.values.what) {
    case TrainValues::kGradients:
      return receive_gradients(link, from, incoming);
    case TrainValues::kWeights:
      if (incoming.values.all) break;
      return receive_weights(link, from, incoming);
    default:
      break;
  }
  if (from != cluster::kTrainLeader || options_.id == cluster::kTrainLeader)
    return refuse(link, incoming, "only the leader sends such values");
  return receive_state(link, incoming);
}

Status MemberRunner::receive_gradients(TrainLink& link, cluster::TrainMemberId from,
                                       const TrainLink::Incoming& incoming) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const train::GradientWire& wire = trainer_.wire();
  const bool coded = wire.mode() != train::WireMode::kExact;
  train::GradientSum sum;
  train::Shard shard;
  {
    Lock lock(mutex_);
    const Arrival arrival =
        wait_for(lock, [&] { return machine_.gradients(from, head.epoch, head.step, values.node); });
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kTake) {
      shard = shard_of(*machine_.shard());
      const size_t expected = coded ? wire.bytes(shard) : tree_->floats() * sizeof(float);
      if (!incoming.fits(expected) || values.mode != static_cast<uint8_t>(wire.mode()))
        return refuse(link, incoming,
                      fmt::format("mode {}, expected {} bytes of mode {}", values.mode, expected,
                                  static_cast<int>(wire.mode())));
      sum = tree_->take();
    }
  }
  if (sum.values == nullptr) return link.skip_values(incoming);
  PooledArray<std::byte> code(coded ? wire.bytes(shard) : 0);
  const std::span<std::byte> piece = coded ? std::span(code.data(), code.size())
                                           : std::span(reinterpret_cast<std::byte*>(sum.values),
                                                       trainer_.layout().shard_floats(shard) * sizeof(float));
  if (Status status = link.receive_values(incoming, {&piece, 1}); !status) return status;
  if (coded) wire.decode(shard, code.data(), sum.values);
  post([this, from, epoch = head.epoch, step = head.step, node = values.node,
        sum = std::move(sum)]() mutable { add_piece(from, epoch, step, node, std::move(sum)); });
  return {};
}

Status MemberRunner::receive_weights(TrainLink& link, cluster::TrainMemberId from,
                                     const TrainLink::Incoming& incoming) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const train::Shard shard{values.begin, values.end};
  {
    Lock lock(mutex_);
    if (shard.end > trainer_.layout().blocks().size()) return refuse(link, incoming, "no such blocks");
    const Arrival arrival = wait_for(
        lock, [&] { return machine_.weights(from, head.epoch, head.step, values.begin, values.end); });
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) {
      lock.unlock();
      return link.skip_values(incoming);
    }
  }
  const std::vector<std::span<std::byte>> pieces = weight_pieces(shard);
  const size_t bytes = bytes_of(pieces);
  Status status = incoming.fits(bytes) ? link.receive_values(incoming, pieces)
                                       : refuse(link, incoming, fmt::format("expected {} bytes", bytes));
  const std::lock_guard lock(mutex_);
  if (status)
    machine_.weights_taken(from, head.epoch, head.step);
  else
    machine_.weights_lost(from, head.epoch, head.step);
  moved();
  return status;
}

Status MemberRunner::receive_state(TrainLink& link, const TrainLink::Incoming& incoming) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const bool weights = values.what == TrainValues::kWeights;
  std::vector<std::span<std::byte>> pieces;
  {
    Lock lock(mutex_);
    const Arrival arrival = wait_for(lock, [&] { return machine_.state(head.epoch); });
    if (arrival == Arrival::kRefuse || (!weights && !machine_.plan().keeps_state(options_.id)))
      return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) {
      lock.unlock();
      return link.skip_values(incoming);
    }
    pieces = weights ? weight_pieces(trainer_.layout().all())
                     : kept_pieces(trainer_, machine_.plan(), options_.id);
  }
  const size_t bytes = bytes_of(pieces);
  if (bytes != incoming.value_bytes) return refuse(link, incoming, fmt::format("expected {} bytes", bytes));
  if (Status status = link.receive_values(incoming, pieces); !status) return status;
  const std::lock_guard lock(mutex_);
  if (weights)
    machine_.weights_loaded(head.epoch);
  else
    machine_.moments_loaded(head.epoch);
  moved();
  return {};
}

void MemberRunner::loaded(const cluster::TrainPlan& plan) {
  if (plan.weights_come) machine_.weights_loaded(plan.epoch);
  if (plan.moments_come) machine_.moments_loaded(plan.epoch);
  moved();
}

// ---- The computing thread ----

uint64_t MemberRunner::step() const {
  const std::lock_guard lock(mutex_);
  return machine_.step();
}

cluster::TrainPlan MemberRunner::current_plan() const {
  const std::lock_guard lock(mutex_);
  return machine_.plan();
}

void MemberRunner::add_piece(cluster::TrainMemberId from, cluster::Epoch epoch, uint64_t step, PairNode node,
                             train::GradientSum sum) {
  std::shared_ptr<train::GradientTree> tree;
  {
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() != epoch || dealt_.epoch != epoch || dealt_.step != step) return;
    tree = tree_;
  }
  {
    const WorkTimes::Timed timed(times_, &Times::reduce);
    tree->finish(node, std::move(sum), adding_);
  }
  const std::lock_guard lock(mutex_);
  machine_.gradients_taken(from, epoch, step, node);
  moved();
}

void MemberRunner::perform(const cluster::ReportReady& action) {
  trainer_.set_step_count(step());
  options_.calls.report(cluster::TrainingReady{action.epoch});
}

void MemberRunner::perform(const cluster::ComputeLeaves& action) {
  MemberInputs inputs;
  cluster::DealtStep dealt;
  cluster::TrainPlan plan;
  bool current = false;
  TimePoint dealt_at;
  {
    const std::lock_guard lock(mutex_);
    dealt_at = dealt_at_;
    current = dealt_.epoch == action.epoch && dealt_.step == action.step && machine_.epoch() == action.epoch;
    if (current) {
      inputs = inputs_;
      dealt = dealt_;
      plan = machine_.plan();
    }
  }
  times_.begin_step(dealt_at, dealt.trace);
  cluster::LeavesDone done{.epoch = action.epoch, .step = action.step};
  train::LeafSums sums;
  if (current && !action.range.empty()) {
    BF_CHECK(inputs.batches.size() == action.range.size()) << inputs.batches.size() << " micro-batches";
    trainer_.set_step_count(action.step);
    const TimePoint start = system_now();
    sums = trainer_.leaves({.micro_batches = action.leaves, .targets = dealt.targets}, action.range.begin,
                           inputs.batches);
    const TimePoint end = system_now();
    const TimePoint computed = std::max(start, end - std::chrono::duration_cast<Duration>(
                                                         std::chrono::duration<double>(sums.coding_seconds)));
    times_.add(&Times::compute, start, computed);
    if (computed < end) times_.add(&Times::serialise, computed, end);
    done.seconds = seconds_of(computed - start);
  }
  {
    const std::lock_guard lock(mutex_);
    machine_.computed(action.epoch, action.step);
    moved();
  }
  if (!current) return;
  for (const train::LeafReport& report : sums.reports) done.leaves.push_back({report.loss, report.correct});
  for (const train::LeafSums::Subtree& subtree : sums.subtrees)
    send_gradients(plan, action.epoch, action.step, subtree);
  done.times = times_.totals();
  done.spans = times_.take_spans();
  done.gradient_bytes = gradient_bytes_;
  done.gradient_bytes_sent = gradients_.sent_bytes();
  done.weight_bytes = weights_.plain_bytes();
  done.weight_bytes_sent = weights_.sent_bytes();
  done.packing_gradients = gradients_.describe();
  done.packing_weights = weights_.describe();
  options_.calls.report(done);
}

// To the owner of each shard, this member perhaps among them.
void MemberRunner::send_gradients(const cluster::TrainPlan& plan, cluster::Epoch epoch, uint64_t step,
                                  const train::LeafSums::Subtree& subtree) {
  const train::ParameterLayout& layout = trainer_.layout();
  const train::GradientWire& wire = trainer_.wire();
  for (const cluster::OwnedShard& owned : plan.shards) {
    const train::Shard shard = shard_of(owned);
    float* values = subtree.sum.values + layout.shard_offset(shard);
    if (owned.owner == options_.id) {
      {
        const std::lock_guard lock(mutex_);
        if (machine_.gradients(options_.id, epoch, step, subtree.node) != Arrival::kTake) continue;
      }
      add_piece(options_.id, epoch, step, subtree.node, {subtree.sum.memory, values});
      continue;
    }
    const size_t floats = layout.shard_floats(shard);
    std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(values), floats * sizeof(float));
    gradient_bytes_ += piece.size();
    if (!subtree.code.empty()) piece = {subtree.code.data() + wire.offset(shard), wire.bytes(shard)};
    cluster::ValuesHead head{.what = TrainValues::kGradients,
                             .node = subtree.node,
                             .begin = owned.begin,
                             .end = owned.end,
                             .mode = static_cast<uint8_t>(wire.mode())};
    const ConstPieces packed = prepare(gradients_, head, {&piece, 1}, train::wire_element_bytes(wire.mode()));
    send_packed(gradients_, owned.owner, epoch, step, head, packed);
  }
}

void MemberRunner::send_packed(ValuePacker& packer, cluster::TrainMemberId to, cluster::Epoch epoch,
                               uint64_t step, const cluster::ValuesHead& head, ConstPieces pieces) {
  const TimePoint start = system_now();
  options_.calls.send_values(to, epoch, step, head, pieces);
  const TimePoint end = system_now();
  times_.add(&Times::wire, start, end);
  packer.sent(seconds_of(end - start));
}

ConstPieces MemberRunner::prepare(ValuePacker& packer, cluster::ValuesHead& head, ConstPieces pieces,
                                  size_t planes) {
  const WorkTimes::Timed timed(times_, &Times::compress);
  return packer.prepare(head, pieces, planes);
}

void MemberRunner::perform(const cluster::ReduceShard& action) {
  std::shared_ptr<train::GradientTree> tree;
  train::Shard shard;
  {
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() != action.epoch || dealt_.step != action.step) return;
    tree = tree_;
    shard = shard_of(*machine_.shard());
  }
  {
    const WorkTimes::Timed timed(times_, &Times::reduce);
    sum_ = tree->result();
    squares_ = trainer_.squares(shard, sum_.values);
  }
  const std::lock_guard lock(mutex_);
  machine_.reduced(action.epoch, action.step);
  moved();
}

void MemberRunner::perform(const cluster::ReportPrepared& action) {
  options_.calls.report(cluster::StepPrepared{action.epoch, action.step, squares_});
}

void MemberRunner::perform(const cluster::UpdateShard& action) {
  double norm = 0;
  size_t leaves = 0;
  std::optional<train::Shard> shard;
  {
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() == action.epoch && dealt_.step == action.step) {
      norm = norm_;
      leaves = dealt_.deal.back().leaves.end;
      shard = shard_of(*machine_.shard());
    }
  }
  if (shard) {
    const WorkTimes::Timed timed(times_, &Times::update);
    trainer_.set_step_count(action.step);
    trainer_.update(*shard, sum_.values, norm, leaves);
  }
  sum_ = {};
  const std::lock_guard lock(mutex_);
  machine_.updated(action.epoch, action.step);
  moved();
}

void MemberRunner::perform(const cluster::SendShard& action) {
  const cluster::TrainPlan plan = current_plan();
  const cluster::OwnedShard* own = plan.shard_of(options_.id);
  if (plan.epoch != action.epoch || own == nullptr) return;
  if (plan.members.size() == 1) return;
  const auto pieces = const_pieces(weight_pieces(shard_of(*own)));
  cluster::ValuesHead head{.what = TrainValues::kWeights, .begin = own->begin, .end = own->end};
  const ConstPieces packed = prepare(weights_, head, pieces, sizeof(float));
  for (const cluster::TrainPlan::Member& member : plan.members)
    if (member.id != options_.id) send_packed(weights_, member.id, action.epoch, action.step, head, packed);
}

void MemberRunner::perform(const cluster::StepComplete& action) {
  trainer_.set_step_count(action.step);
  if (options_.calls.on_complete) options_.calls.on_complete(action.epoch, action.step);
}

void MemberRunner::perform(const cluster::ReportState& action) {
  const cluster::TrainPlan plan = current_plan();
  if (plan.epoch != action.epoch) return;
  if (plan.keeps_state(options_.id) && options_.id != cluster::kTrainLeader)
    options_.calls.send_values(cluster::kTrainLeader, action.epoch, action.step,
                               {.what = TrainValues::kMoments},
                               const_pieces(kept_pieces(trainer_, plan, options_.id)));
  options_.calls.report(cluster::TrainStateReport{action.epoch, action.step, parameters_hash(trainer_)});
}

}  // namespace butterfly::runtime
