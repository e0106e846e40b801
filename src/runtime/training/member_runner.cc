#include "runtime/training/member_runner.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
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
      weights_(options_.packing),
      sender_(
          options_.packing,
          [this](const OutgoingValues& it, ConstPieces pieces) {
            options_.calls.send_values(it.to, it.epoch, it.step, it.head, pieces);
          },
          [this](std::exception_ptr error) { post([error] { std::rethrow_exception(error); }); }) {}

void MemberRunner::stop() {
  MemberWork::stop();
  sender_.stop();
}

// ---- Orders ----

void MemberRunner::moved() {
  for (cluster::TrainMemberAction& action : machine_.take_actions())
    jobs_.push_back(
        [this, action = std::move(action)] { std::visit([this](const auto& it) { perform(it); }, action); });
  notify();
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
  const cluster::OwnedShard* own = plan.shard_of(options_.id);
  std::vector<train::Shard> buckets;
  if (own != nullptr) buckets = cut_buckets(trainer_.layout(), shard_of(*own), options_.bucket_bytes);
  const cluster::Epoch before = machine_.epoch();
  machine_.plan(plan, buckets.size());
  if (machine_.epoch() == before) return;  // it was an old one
  buckets_ = buckets_of(trainer_.layout(), plan, options_.bucket_bytes);
  // New ones: the computing thread may still be inside those of the epoch before.
  sums_ = own == nullptr ? nullptr : std::make_shared<BucketSums>(trainer_.layout(), std::move(buckets));
  sender_.set_epoch(plan.epoch);
  blocks_came_ = 0;
  linked_ = false;
  to_pass_.clear();
  moved();
}

void MemberRunner::peers_linked(cluster::Epoch epoch) {
  const std::lock_guard lock(mutex_);
  machine_.peers_linked(epoch);
  if (epoch == machine_.epoch()) {
    linked_ = true;
    for (const train::Shard& blocks : std::exchange(to_pass_, {}))
      jobs_.push_back([this, epoch, blocks] { pass_on(epoch, blocks); });
  }
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
    cut_ = false;
    dealt_at_ = system_now();
    inputs_ = std::move(inputs);
    if (sums_ != nullptr) sums_->begin(step.deal.back().leaves.end);
  }
  machine_.deal(step.epoch, step.step, step.deal);
  moved();
}

void MemberRunner::commit(const cluster::CommitDealtStep& commit) {
  const std::lock_guard lock(mutex_);
  norm_ = commit.norm;
  scale_ = commit.scale;
  machine_.commit(commit.epoch, commit.step);
  moved();
}

void MemberRunner::cut(const cluster::CutDealtStep& cut) {
  const std::lock_guard lock(mutex_);
  if (dealt_.epoch == cut.epoch && dealt_.step == cut.step) cut_ = true;
}

void MemberRunner::gather(const cluster::GatherTrainState& gather) {
  const std::lock_guard lock(mutex_);
  machine_.gather(gather.epoch, gather.step);
  moved();
}

// ---- Values that arrive ----

Result<MemberWork::Taken> MemberRunner::receive(TrainLink& link, cluster::TrainMemberId from,
                                                const TrainLink::Incoming& incoming, bool patient) {
  switch (incoming.values.what) {
    case TrainValues::kGradients:
      return receive_gradients(link, from, incoming, patient);
    case TrainValues::kWeights:
      if (incoming.values.all) break;
      return receive_weights(link, from, incoming, patient);
    default:
      break;
  }
  const bool may = incoming.values.what == TrainValues::kWeights || from == cluster::kTrainLeader;
  if (!may || options_.id == cluster::kTrainLeader)
    return refuse(link, incoming, "only the leader sends such values");
  return receive_state(link, from, incoming, patient);
}

Result<MemberWork::Taken> MemberRunner::receive_gradients(TrainLink& link, cluster::TrainMemberId from,
                                                          const TrainLink::Incoming& incoming, bool patient) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const train::GradientWire& wire = trainer_.wire();
  const bool coded = wire.mode() != train::WireMode::kExact;
  train::GradientSum sum;
  const train::Shard shard{values.begin, values.end};
  size_t bucket = 0;
  {
    Lock lock(mutex_);
    // Which buckets there are is known with the epoch.
    const Arrival arrival = wait_for(lock, patient, [&] {
      bucket = sums_ == nullptr ? 0 : sums_->find(shard);
      return machine_.gradients(from, head.epoch, head.step, values.node, bucket);
    });
    if (arrival == Arrival::kWait) return Taken{.later = true};
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kTake) {
      const size_t floats = sums_->tree(bucket).floats();
      const size_t expected = coded ? wire.bytes(shard) : floats * sizeof(float);
      if (!incoming.fits(expected) || values.mode != static_cast<uint8_t>(wire.mode()))
        return refuse(link, incoming,
                      fmt::format("mode {}, expected {} bytes of mode {}", values.mode, expected,
                                  static_cast<int>(wire.mode())));
      sum = sums_->tree(bucket).take();
    }
  }
  if (sum.values == nullptr) return LinkReaders::drop(link, incoming);
  struct Came {
    train::GradientSum sum;
    PooledArray<std::byte> code;
  };
  auto values_here = std::make_shared<Came>(Came{std::move(sum), {}});
  if (coded) values_here->code.resize(wire.bytes(shard));
  const std::span<std::byte> piece = coded ? std::span(values_here->code.data(), values_here->code.size())
                                           : std::span(reinterpret_cast<std::byte*>(values_here->sum.values),
                                                       trainer_.layout().shard_floats(shard) * sizeof(float));
  link.place_values(incoming, {&piece, 1});
  return Taken{.placed = [this, from, shard, coded, head, node = values.node, bucket,
                          values_here](const Status& came) {
    if (!came) return came;
    if (coded) trainer_.wire().decode(shard, values_here->code.data(), values_here->sum.values);
    post([this, from, epoch = head.epoch, step = head.step, node, bucket, values_here] {
      add_piece(from, epoch, step, node, bucket, std::move(values_here->sum));
    });
    return came;
  }};
}

Result<MemberWork::Taken> MemberRunner::receive_weights(TrainLink& link, cluster::TrainMemberId from,
                                                        const TrainLink::Incoming& incoming, bool patient) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const train::Shard shard{values.begin, values.end};
  {
    Lock lock(mutex_);
    if (shard.end > trainer_.layout().blocks().size()) return refuse(link, incoming, "no such blocks");
    const Arrival arrival = wait_for(lock, patient, [&] {
      return machine_.weights(from, head.epoch, head.step, values.begin, values.end);
    });
    if (arrival == Arrival::kWait) return Taken{.later = true};
    if (arrival == Arrival::kRefuse) return refuse(link, incoming, "nobody expects them");
    if (arrival == Arrival::kDrop) return LinkReaders::drop(link, incoming);
  }
  const std::vector<std::span<std::byte>> pieces = weight_pieces(shard);
  const size_t bytes = bytes_of(pieces);
  const auto ended = [this, from, epoch = head.epoch, step = head.step](const Status& came) {
    const std::lock_guard lock(mutex_);
    if (came)
      machine_.weights_taken(from, epoch, step);
    else
      machine_.weights_lost(from, epoch, step);
    moved();
    return came;
  };
  if (!incoming.fits(bytes)) return ended(refuse(link, incoming, fmt::format("expected {} bytes", bytes)));
  link.place_values(incoming, pieces);
  return Taken{.placed = ended};
}

Result<MemberWork::Taken> MemberRunner::receive_state(TrainLink& link, cluster::TrainMemberId from,
                                                      const TrainLink::Incoming& incoming, bool patient) {
  const cluster::MessageHead& head = incoming.head;
  const cluster::ValuesHead& values = incoming.values;
  const bool weights = values.what == TrainValues::kWeights;
  const train::Shard blocks{values.begin, values.end};
  std::vector<std::span<std::byte>> pieces;
  {
    Lock lock(mutex_);
    const Arrival arrival = wait_for(lock, patient, [&] {
      // What an epoch before began may come from another link, and must not end in the middle of this.
      const Arrival now = machine_.state(head.epoch);
      return now == Arrival::kTake && loading_ > 0 && loading_epoch_ != head.epoch ? Arrival::kWait : now;
    });
    if (arrival == Arrival::kDrop) return LinkReaders::drop(link, incoming);
    const cluster::TrainPlan& plan = machine_.plan();
    const bool expected = weights ? plan.weights_come && plan.weights_from == from &&
                                        blocks.begin == blocks_came_ && blocks.begin < blocks.end &&
                                        blocks.end <= trainer_.layout().blocks().size()
                                  : plan.moments_come && plan.keeps_state(options_.id);
    if (arrival == Arrival::kRefuse || !expected) return refuse(link, incoming, "nobody expects them");
    pieces = weights ? weight_pieces(blocks) : kept_pieces(trainer_, plan, options_.id);
    if (const size_t bytes = bytes_of(pieces); bytes != incoming.value_bytes)
      return refuse(link, incoming, fmt::format("expected {} bytes", bytes));
    ++loading_;
    loading_epoch_ = head.epoch;
  }
  link.place_values(incoming, pieces);
  return Taken{.placed = [this, epoch = head.epoch, weights, blocks](const Status& came) {
    const std::lock_guard lock(mutex_);
    --loading_;
    if (came && machine_.epoch() == epoch) state_came(epoch, weights, blocks);
    moved();
    return came;
  }};
}

void MemberRunner::state_came(cluster::Epoch epoch, bool weights, const train::Shard& blocks) {
  if (!weights) return machine_.moments_loaded(epoch);
  blocks_came_ = blocks.end;
  if (!machine_.plan().weights_to.empty()) {
    if (linked_)
      jobs_.push_back([this, epoch, blocks] { pass_on(epoch, blocks); });
    else
      to_pass_.push_back(blocks);
  }
  if (blocks_came_ == trainer_.layout().blocks().size()) machine_.weights_loaded(epoch);
}

void MemberRunner::pass_on(cluster::Epoch epoch, const train::Shard& blocks) {
  const cluster::TrainPlan plan = current_plan();
  if (plan.epoch != epoch) return;
  const cluster::ValuesHead head{.what = TrainValues::kWeights,
                                 .all = true,
                                 .begin = static_cast<uint32_t>(blocks.begin),
                                 .end = static_cast<uint32_t>(blocks.end)};
  for (const cluster::TrainMemberId to : plan.weights_to)
    options_.calls.send_values(to, epoch, plan.step, head, const_pieces(weight_pieces(blocks)));
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
                             size_t bucket, train::GradientSum sum) {
  std::shared_ptr<BucketSums> sums;
  {
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() != epoch || dealt_.epoch != epoch || dealt_.step != step) return;
    sums = sums_;
  }
  {
    const WorkTimes::Timed timed(times_, &Times::reduce);
    sums->tree(bucket).finish(node, std::move(sum), adding_);
  }
  const std::lock_guard lock(mutex_);
  machine_.gradients_taken(from, epoch, step, node, bucket);
  moved();
}

void MemberRunner::perform(const cluster::ReportReady& action) {
  trainer_.set_step_count(step());
  options_.calls.report(cluster::TrainingReady{action.epoch});
}

void MemberRunner::perform(const cluster::ComputeLeaves& action) {
  MemberInputs inputs;
  cluster::DealtStep dealt;
  std::vector<OwnedBucket> buckets;
  bool current = false;
  TimePoint dealt_at;
  {
    const std::lock_guard lock(mutex_);
    dealt_at = dealt_at_;
    current = dealt_.epoch == action.epoch && dealt_.step == action.step && machine_.epoch() == action.epoch;
    if (current) {
      inputs = inputs_;
      dealt = dealt_;
      buckets = buckets_;
    }
  }
  for (const auto& [from, to] : sender_.take_spans()) times_.add_beside(from, to);
  times_.begin_step(dealt_at, dealt.trace);
  cluster::LeavesDone done{.epoch = action.epoch, .step = action.step};
  train::LeafSums sums;
  if (current && !action.range.empty()) {
    BF_CHECK(inputs.batches.size() == action.range.size()) << inputs.batches.size() << " micro-batches";
    trainer_.set_step_count(action.step);
    std::vector<train::Shard> cuts;
    for (const OwnedBucket& bucket : buckets) cuts.push_back(bucket.blocks);
    double handing = 0;  // seconds
    const train::LeafStream stream(trainer_.layout(), std::move(cuts),
                                   [&](const train::LeafSubtree& subtree, size_t bucket) {
                                     const TimePoint from = system_now();
                                     send_gradients(buckets[bucket], action.epoch, action.step, subtree);
                                     handing += seconds_of(system_now() - from);
                                   });
    const TimePoint start = system_now();
    sums = trainer_.leaves({.micro_batches = action.leaves, .targets = dealt.targets}, action.range.begin,
                           inputs.batches, &stream, &cut_);
    const TimePoint end = system_now();
    const auto before = [start](TimePoint time, double seconds) {
      return std::max(start,
                      time - std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    };
    // Where several took turns, as if they had been one behind the other.
    const TimePoint handed = before(end, handing), computed = before(handed, sums.coding_seconds);
    times_.add(&Times::compute, start, computed);
    if (computed < handed) times_.add(&Times::serialise, computed, handed);
    times_.add_wait(handed, end, {.wire = handing});
    done.seconds = seconds_of(computed - start);
    done.made = sums.made;
    done.targets = sums.targets;
  }
  {
    const std::lock_guard lock(mutex_);
    machine_.computed(action.epoch, action.step);
    moved();
  }
  if (!current) return;
  for (const train::LeafReport& report : sums.reports) done.leaves.push_back({report.loss, report.correct});
  report_leaves(std::move(done));
}

void MemberRunner::report_leaves(cluster::LeavesDone done) {
  const ValueSender::Figures sent = sender_.figures();
  done.times = times_.totals(sent.seconds);
  done.cpu_seconds = process_cpu_seconds() - cpu_before_;
  done.spans = times_.take_spans();
  done.gradient_bytes = gradient_bytes_;
  done.gradient_bytes_sent = sent.sent_bytes;
  done.weight_bytes = weights_.plain_bytes();
  done.weight_bytes_sent = weights_.sent_bytes();
  done.packing_gradients = sent.packing;
  done.packing_weights = weights_.describe();
  const TimePoint start = system_now();
  options_.calls.report(done);
  // On the link to the leader gradients may go before it.
  if (options_.id != cluster::kTrainLeader)
    times_.add_wait(start, system_now(), sender_.seconds().since(sent.seconds));
}

// To its owner, who may be this member.
void MemberRunner::send_gradients(const OwnedBucket& bucket, cluster::Epoch epoch, uint64_t step,
                                  const train::LeafSubtree& subtree) {
  const train::ParameterLayout& layout = trainer_.layout();
  const train::GradientWire& wire = trainer_.wire();
  float* values = subtree.sum.values + layout.shard_offset(bucket.blocks);
  if (bucket.owner == options_.id) {
    {
      const std::lock_guard lock(mutex_);
      if (machine_.gradients(options_.id, epoch, step, subtree.node, bucket.index) != Arrival::kTake) return;
    }
    post([this, epoch, step, node = subtree.node, index = bucket.index,
          sum = train::GradientSum{subtree.sum.memory, values}] {
      add_piece(options_.id, epoch, step, node, index, sum);
    });
    return;
  }
  OutgoingValues out{.to = bucket.owner,
                     .epoch = epoch,
                     .step = step,
                     .head = {.what = TrainValues::kGradients,
                              .node = subtree.node,
                              .begin = static_cast<uint32_t>(bucket.blocks.begin),
                              .end = static_cast<uint32_t>(bucket.blocks.end),
                              .mode = static_cast<uint8_t>(wire.mode())},
                     .values = {reinterpret_cast<const std::byte*>(values),
                                layout.shard_floats(bucket.blocks) * sizeof(float)},
                     .element_bytes = train::wire_element_bytes(wire.mode()),
                     .keep = std::make_shared<train::LeafSubtree>(subtree)};
  gradient_bytes_ += out.values.size();
  if (subtree.code != nullptr)
    out.values = {subtree.code->data() + wire.offset(bucket.blocks), wire.bytes(bucket.blocks)};
  sender_.push(std::move(out));
}

ConstPieces MemberRunner::prepare(ValuePacker& packer, cluster::ValuesHead& head, ConstPieces pieces,
                                  size_t planes) {
  const WorkTimes::Timed timed(times_, &Times::compress);
  return packer.prepare(head, pieces, planes);
}

void MemberRunner::perform(const cluster::ReduceShard& action) {
  {
    const std::lock_guard lock(mutex_);
    if (machine_.epoch() != action.epoch || dealt_.step != action.step) return;
    reducing_ = sums_;
  }
  {
    const WorkTimes::Timed timed(times_, &Times::reduce);
    reduced_.clear();
    squares_.clear();
    for (size_t i = 0; i < reducing_->buckets().size(); ++i) {
      reduced_.push_back(reducing_->tree(i).result());
      const std::vector<float> squares = trainer_.squares(reducing_->buckets()[i], reduced_[i].values);
      squares_.insert(squares_.end(), squares.begin(), squares.end());
    }
  }
  const std::lock_guard lock(mutex_);
  machine_.reduced(action.epoch, action.step);
  moved();
}

void MemberRunner::perform(const cluster::ReportPrepared& action) {
  options_.calls.report(cluster::StepPrepared{action.epoch, action.step, squares_});
}

void MemberRunner::perform(const cluster::UpdateShard& action) {
  double norm = 0, scale = 1;
  size_t leaves = 0;
  bool current = false;
  {
    const std::lock_guard lock(mutex_);
    current = machine_.epoch() == action.epoch && dealt_.step == action.step;
    if (current) {
      norm = norm_;
      scale = scale_;
      leaves = dealt_.deal.back().leaves.end;
    }
  }
  if (current) {
    const WorkTimes::Timed timed(times_, &Times::update);
    trainer_.set_step_count(action.step);
    for (size_t i = 0; i < reduced_.size(); ++i)
      trainer_.update(reducing_->buckets()[i], reduced_[i].values, norm, leaves, static_cast<float>(scale));
  }
  reduced_.clear();
  reducing_.reset();
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
  std::vector<LinkReaders::Sending> all;
  for (const cluster::TrainPlan::Member& member : plan.members) {
    if (member.id == options_.id) continue;
    if (auto link = options_.calls.link_to(member.id))
      all.push_back({.link = std::move(link), .values = {action.epoch, action.step, head, packed}});
  }
  const TimePoint start = system_now();
  readers_.send(all);
  const TimePoint end = system_now();
  times_.add(&Times::wire, start, end);
  for (const LinkReaders::Sending& sent : all) {
    weights_.sent(seconds_of(end - start) / static_cast<double>(all.size()));
    if (!sent.status) log_debug("training: {}", sent.status.text());
  }
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
