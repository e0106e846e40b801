#include "runtime/training/training_leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/file_text.h"
#include "base/secret.h"
#include "base/units.h"
#include "runtime/training/member_network.h"
#include "runtime/training/private_file.h"
#include "tensor/file_memory.h"
#include "train/task/stage_network.h"
#include "train/trainer/batch_inputs.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(100);
constexpr Duration kSilenceMax = std::chrono::seconds(60);  // or ten steps, if they take longer
constexpr Duration kHoldBack = std::chrono::seconds(60);    // who failed is not asked sooner

// What members need of the config: nothing that names files.
std::string member_config(train::TrainConfig config, const std::string& base_id) {
  config.base_model = base_id.empty() ? "" : std::string(kFetchedBase) + base_id;
  config.tokenizer.clear();
  config.chat_template.clear();
  config.model.name.clear();
  config.model.network.clear();
  config.datasets.clear();
  config.test_datasets.clear();
  config.output_dir.clear();
  return train::config_text(config);
}

std::vector<std::byte> network_bytes(train::TrainRun& run) {
  const PrivateFile file("model.gguf");
  if (run.config().pipeline_stages > 0)
    train::write_stage_source(*run.task().network, parameter_names(run.trainer()), file.path());
  else
    run.task().write_network(file.path());
  const std::string text = read_text_file(file.path());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

cluster::TrainLeadConfig lead_config(train::TrainRun& run, cluster::Epoch first_epoch,
                                     uint64_t snapshot_every, uint64_t shard_bytes_min,
                                     uint64_t memory_bytes) {
  cluster::TrainLeadConfig config;
  if (run.config().pipeline_stages > 0)
    config.pipeline = pipeline_config(run, memory_bytes > 0 ? memory_bytes : memory_limit_bytes());
  config.step = run.step();
  config.first_epoch = first_epoch;
  config.snapshot_every = snapshot_every;
  config.shard_bytes_min = shard_bytes_min;
  const train::WireMode mode = run.trainer().wire().mode();
  if (mode != train::WireMode::kExact) config.slots = static_cast<uint32_t>(run.trainer().slots());
  config.residuals = train::has_residuals(mode);
  if (train::makes_local_steps(mode)) {
    config.quorum = run.config().merge_quorum;
    config.grace_s = run.config().merge_grace;
  }
  for (const train::NormBlock& block : run.trainer().layout().blocks())
    config.block_bytes.push_back(block.count * sizeof(float));
  return config;
}

}  // namespace

TrainingLeader::TrainingLeader(Options options)
    : options_(std::move(options)),
      run_(*options_.run),
      trainer_(run_.trainer()),
      run_number_(std::stoull(random_hex(15), nullptr, 16)),
      config_(member_config(run_.config(), options_.base_id)),
      lead_(lead_config(run_, options_.first_epoch, options_.snapshot_every, options_.shard_bytes_min,
                        options_.memory_bytes)) {
  model_ = network_bytes(run_);
  if (run_.config().update_in_backward)
    fail(Errc::kInvalidArgument, "update_in_backward: over several nodes gradients are summed first");
  check_sizes();
  runner_ = make_runner();
  const train::ItemShape shape = run_.task().data->shape();
  links_ = std::make_unique<LeaderLinks>(
      LeaderLinks::Options{.nodes = options_.nodes,
                           .connect = options_.connect,
                           .start = {.run = run_number_,
                                     .config = config_,
                                     .steps = run_.steps(),
                                     .model_bytes = model_.size(),
                                     .items = static_cast<uint32_t>(run_.config().micro_batch_size),
                                     .ids = static_cast<uint32_t>(shape.ids),
                                     .values = static_cast<uint32_t>(shape.values),
                                     .targets = static_cast<uint32_t>(shape.targets)},
                           .model = model_,
                           .agreement = agreement_,
                           .socket_bytes = run_.config().wire_socket_bytes,
                           .readers = &runner_->readers()},
      link_events());
  figures_[cluster::kTrainLeader].name = options_.name;
  act();
  links_->start();
}

std::unique_ptr<MemberWork> TrainingLeader::make_runner() {
  const MemberCalls calls{
      .report = [this](const cluster::ToTrainLead& report) { handle(cluster::kTrainLeader, report); },
      .link_to = [this](cluster::TrainMemberId to) { return links_->of(to); },
      .on_complete =
          [this](cluster::Epoch epoch, uint64_t step) {
            if (pipeline_ != nullptr) trainer_.set_step_count(step);
            lead_.complete(epoch, step);
            act();
          }};
  if (run_.config().pipeline_stages == 0) {
    agreement_ = agreement_of(run_.config(), trainer_);
    return std::make_unique<MemberRunner>(
        MemberRunner::Options{.id = cluster::kTrainLeader,
                              .trainer = &trainer_,
                              .packing = packing_options(run_.config()),
                              .bucket_bytes = run_.config().wire_bucket_bytes,
                              .calls = calls});
  }
  const PrivateFile file("model.gguf");
  std::ofstream(file.path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(model_.data()), static_cast<std::streamsize>(model_.size()));
  const train::TrainConfig config = train::config_of_text(config_);
  auto source = std::make_shared<PipelineSource>(
      PipelineSource{.config = config,
                     .steps = run_.steps(),
                     .network = train::read_stage_source(config, file.path()),
                     .items = run_.config().micro_batch_size,
                     .threads = run_.config().threads});
  agreement_ = pipeline_agreement(source->config, source->network);
  auto runner = std::make_unique<PipelineRunner>(PipelineRunner::Options{
      .id = cluster::kTrainLeader, .step = run_.step(), .source = std::move(source), .calls = calls});
  pipeline_ = runner.get();
  return runner;
}

// A node gets all weights, and what it is to keep, in one message each.
void TrainingLeader::check_sizes() {
  if (run_.config().pipeline_stages > 0) return;  // stages are smaller, and receive() looks at each message
  const uint64_t weights = trainer_.layout().total() * sizeof(float);
  uint64_t kept = 0;
  for (const train::StateArray& array : trainer_.optimizer_state()) kept += array.bytes.size();
  if (train::has_residuals(trainer_.wire().mode())) kept += trainer_.slots() * trainer_.slot_bytes();
  if (std::max(weights, kept) > options_.values_bytes_max)
    fail(Errc::kInvalidArgument,
         "[training over nodes] {} of weights, {} of moments and residuals: a message between nodes has at "
         "most "
         "{}; train on one machine, a smaller model, or with bf16_moments",
         format_bytes(weights), format_bytes(kept), format_bytes(options_.values_bytes_max));
}

TrainingLeader::~TrainingLeader() {
  links_->end("the run is over");
  runner_->stop();
  runner_->end_sending();
  links_.reset();  // its threads may still report to the runner
}

// ---- Nodes come and go ----

LeaderLinks::Events TrainingLeader::link_events() {
  return {
      .agreed =
          [this](auto row, auto link, uint64_t memory_bytes) {
            runner_->post([this, row = std::move(row), link = std::move(link), memory_bytes] {
              joined(row, link, memory_bytes);
            });
          },
      .message =
          [this](auto from, auto message) {
            runner_->post([this, from, report = std::move(message)] { handle(from, report); });
          },
      .values =
          [this](TrainLink& link, auto from, const auto& incoming, bool patient) {
            return incoming.values.what == cluster::TrainValues::kMoments
                       ? receive_moments(link, from, incoming)
                       : runner_->receive(link, from, incoming, patient);
          },
      .ended = [this](auto from,
                      auto why) { runner_->post([this, from, why = std::move(why)] { lost(from, why); }); }};
}

void TrainingLeader::joined(const cluster::TrainPlan::Member& row, const std::shared_ptr<TrainLink>& link,
                            uint64_t memory_bytes) {
  if (!links_->admit(row, link)) return;
  {
    const std::lock_guard lock(mutex_);
    figures_[row.id] = {.id = row.id, .name = row.node.name};
  }
  say(fmt::format("{} takes part from the next step on", row.node.name));
  lead_.join(row, 1, memory_bytes);
  act();
}

void TrainingLeader::lost(cluster::TrainMemberId id, const std::string& why, Duration hold) {
  const std::optional<std::string> name = links_->remove(id, hold);
  if (!name) return;
  say(fmt::format("{} is lost at step {}: {}", *name, lead_.step(), why));
  lead_.lose(id);
  act();
}

// Not in place: the optimizer's arrays of this process may be in use by then.
Result<LinkReaders::Taken> TrainingLeader::receive_moments(TrainLink& link, cluster::TrainMemberId from,
                                                           const TrainLink::Incoming& incoming) {
  const cluster::TrainPlan plan = runner_->current_plan();
  if (plan.epoch > incoming.head.epoch) return LinkReaders::drop(link, incoming);
  size_t bytes = 0;
  if (plan.epoch == incoming.head.epoch && pipeline_ != nullptr)
    bytes =
        bytes_of(whole_weights(trainer_, plan, from, false)) + bytes_of(whole_moments(trainer_, plan, from));
  else if (plan.epoch == incoming.head.epoch)
    bytes = bytes_of(kept_pieces(trainer_, plan, from));
  if (bytes == 0 || bytes != incoming.value_bytes)
    return Status(Errc::kCorrupt, fmt::format("[training] {}: moments of {} bytes, expected {}",
                                              link.peer().name, incoming.value_bytes, bytes));
  // A pipeline's run is larger than this node: what comes from other stages lies in a file.
  auto moments = std::make_shared<Buffer>(pipeline_ != nullptr
                                              ? allocate_in_file(run_.state_folder(), incoming.value_bytes)
                                              : Buffer::allocate(incoming.value_bytes));
  const std::span<std::byte> piece = moments->bytes();
  link.place_values(incoming, {&piece, 1});
  return LinkReaders::Taken{.placed = [this, from, epoch = incoming.head.epoch, moments](const Status& came) {
    if (came)
      runner_->post([this, from, epoch, moments] {
        if (lead_.epoch() == epoch) gathered_[from] = std::move(*moments);
      });
    return came;
  }};
}

// ---- Steps ----

// Whether members live is known from their beats; that one lives and does nothing shows here, when nothing at
// all has happened for long.
void TrainingLeader::pump() {
  const TimePoint begin = created_;
  TimePoint happened = system_now(), short_since = happened;
  while (!lead_.idle()) {
    wait_for_room(short_since);
    lead_.tick(seconds_of(system_now() - begin));
    act();
    Duration timeout = std::chrono::seconds(1);
    if (const auto cut_at = lead_.cut_at())
      timeout = std::clamp<Duration>(
          begin + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*cut_at)) - system_now(),
          std::chrono::milliseconds(1), timeout);
    if (runner_->run_one(timeout)) {
      happened = system_now();
      continue;
    }
    const double limit = std::max(seconds_of(kSilenceMax), 10 * longest_step_);
    if (seconds_of(system_now() - happened) < limit) continue;
    happened = system_now();
    for (const cluster::TrainMemberId id : lead_.waiting_for())
      lost(id, fmt::format("it has reported nothing for {:.0f} s", limit), kHoldBack);
  }
}

void TrainingLeader::wait_for_room(TimePoint& since) {
  if (lead_.phase() != cluster::TrainLead::Phase::kShort) {
    since = system_now();
    short_said_ = false;
    return;
  }
  if (!std::exchange(short_said_, true))
    say(fmt::format("the nodes that are here have too little memory: {}; waits for more", lead_.why_short()));
  if (system_now() - since > options_.room_wait)
    fail(Errc::kOutOfMemory, "[training pipeline] {}; no node with enough memory came within {:.0f} s",
         lead_.why_short(), seconds_of(options_.room_wait));
}

void TrainingLeader::wait_for_nodes() {
  if (begun_) return;
  begun_ = true;
  const Deadline deadline(SystemClock::instance(), options_.nodes_wait);
  while (lead_.size() < options_.nodes_wanted + 1 && !deadline.expired())
    runner_->run_one(std::min<Duration>(kLookEvery, deadline.remaining()));
  if (lead_.size() < options_.nodes_wanted + 1)
    say(fmt::format("begins with {} of {} nodes; the others take part when they come", lead_.size(),
                    options_.nodes_wanted + 1));
}

train::StepReport TrainingLeader::step(std::span<const train::MicroBatch> batches) {
  wait_for_nodes();
  const TimePoint start = system_now();
  current_step_ = trainer_.step_count();
  current_ = batches;
  const train::StepShape shape = train::step_shape(batches);
  const double lr = trainer_.rate();
  const size_t slots = lead_.plan().slots;
  if (std::min(batches.size(), slots == 0 ? SIZE_MAX : slots) < lead_.size() &&
      !std::exchange(few_said_, true))
    say(
        fmt::format("{} micro-batches{} in a step for {} nodes: some have nothing to compute; "
                    "gradient_accumulation_steps gives more{}",
                    batches.size(), slots == 0 ? "" : fmt::format(" in {} slots", slots), lead_.size(),
                    slots == 0 ? "" : ", and wire_slots"));
  lead_.run_until(current_step_ + 1, batches.size());
  act();
  pump();
  train::StepReport report = train::step_report(shape, reports_);
  report.loss *= merge_scale();
  if (merge_scale() != 1) report.targets = targets_seen();
  report.grad_norm = norm_;
  report.lr = lr;
  report.seconds = seconds_of(system_now() - start);
  ++steps_made_;
  longest_step_ = std::max(longest_step_, report.seconds);
  usual_step_ = usual_step_ == 0 ? report.seconds : 0.8 * usual_step_ + 0.2 * report.seconds;
  report.utilisation = compute_seconds_ / (report.seconds * static_cast<double>(lead_.size()));
  return report;
}

void TrainingLeader::gather_state() {
  lead_.want_state();
  act();
  pump();
}

void TrainingLeader::handle(cluster::TrainMemberId from, const cluster::ToTrainLead& report) {
  if (const auto* ready = std::get_if<cluster::TrainingReady>(&report)) {
    lead_.ready(from, ready->epoch);
  } else if (const auto* done = std::get_if<cluster::LeavesDone>(&report)) {
    LeafRange range;
    for (const cluster::DealtLeaves& dealt : deal_)
      if (dealt.member == from) range = dealt.leaves;
    // Of a pipeline's stages the last one has the losses.
    if (const cluster::TrainPlan& plan = lead_.plan(); plan.pipelined())
      range = plan.stages.back().member == from ? deal_.back().leaves : LeafRange{};
    if (done->epoch == lead_.epoch() && done->step == lead_.step()) {
      size_t targets = 0;
      for (size_t i = range.begin; i < range.end && !lead_.plan().pipelined(); ++i)
        targets += leaf_targets_[i];
      if (done->leaves.size() != range.size() || done->targets > targets || done->made > range.size()) {
        if (const auto link = links_->of(from)) link->close();
        return;
      }
      for (size_t i = 0; i < range.size(); ++i)
        reports_[range.begin + i] = {.loss = done->leaves[i].loss, .correct = done->leaves[i].correct};
      compute_seconds_ += done->seconds;
      targets_seen_[from] = done->targets;
    }
    {
      const std::lock_guard lock(mutex_);
      TrainMemberReport& figures = figures_[from];
      figures.leaves += done->leaves.size();
      figures.times = done->times;
      tracer_.add(from, figures.name, done->spans);
      figures.cpu_seconds = done->cpu_seconds;
      figures.bytes_sent = done->bytes_sent;
      figures.bytes_received = done->bytes_received;
      figures.gradient_bytes = done->gradient_bytes;
      figures.gradient_bytes_sent = done->gradient_bytes_sent;
      figures.weight_bytes = done->weight_bytes;
      figures.weight_bytes_sent = done->weight_bytes_sent;
      figures.packing_gradients = done->packing_gradients;
      figures.packing_weights = done->packing_weights;
    }
    lead_.leaves_done(from, done->epoch, done->step, done->seconds,
                      lead_.plan().pipelined() ? SIZE_MAX : static_cast<size_t>(done->made));
  } else if (const auto* prepared = std::get_if<cluster::StepPrepared>(&report)) {
    if (prepared->epoch == lead_.epoch()) {
      size_t blocks = 0;
      for (const cluster::OwnedShard& shard : lead_.plan().shards)
        if (shard.owner == from) blocks += shard.end - shard.begin;
      if (prepared->squares.size() != blocks) {
        if (const auto link = links_->of(from)) link->close();
        return;
      }
      squares_[from] = prepared->squares;
    }
    lead_.prepared(from, prepared->epoch, prepared->step);
  } else if (const auto* state = std::get_if<cluster::TrainStateReport>(&report)) {
    lead_.state_report(from, state->epoch, state->step, state->hash);
  } else if (const auto* failed = std::get_if<cluster::TrainingFailed>(&report)) {
    lost(from, failed->why, kHoldBack);
    return;
  }
  act();
}

void TrainingLeader::act() {
  for (const cluster::TrainLeadAction& action : lead_.take_actions())
    std::visit([this](const auto& it) { perform(it); }, action);
}

void TrainingLeader::perform(const cluster::BeginEpoch& action) {
  if (action.from_snapshot && action.plan.epoch > options_.first_epoch)
    say(fmt::format("goes on from step {}, {} nodes", action.plan.step, action.plan.members.size()));
  // Others first: they may take a while, and nothing here depends on them.
  const std::vector<cluster::BroadcastRow> tree = tree_of(action);
  for (const cluster::TrainPlan::Member& member : action.plan.members) {
    if (member.id == cluster::kTrainLeader) continue;
    cluster::NewTrainPlan message{action.plan};
    message.plan.weights_come = action.weights_for.contains(member.id);
    message.plan.moments_come = action.moments_for.contains(member.id);
    for (const cluster::BroadcastRow& row : tree) {
      if (row.member != member.id) continue;
      message.plan.weights_from = row.from;
      message.plan.weights_to = row.to;
    }
    const auto link = links_->of(member.id);
    if (link == nullptr || !link->send(message)) continue;
    if (pipeline_ != nullptr && message.plan.weights_come) send_stage(*link, action.plan, member.id);
  }
  if (pipeline_ == nullptr) send_weights(action.plan, tree);
  for (const cluster::TrainMemberId id : action.moments_for) {
    if (pipeline_ != nullptr) break;
    if (const auto link = links_->of(id))
      (void)link->send_values(
          action.plan.epoch, action.plan.step, {.what = cluster::TrainValues::kMoments},
          kept_pieces<std::span<const std::byte>>(trainer_.layout(), action.plan, id, snapshot_.moments(),
                                                  snapshot_.residuals()));
  }
  cluster::TrainPlan own = action.plan;
  own.weights_come = action.weights_for.contains(cluster::kTrainLeader);
  own.moments_come = action.moments_for.contains(cluster::kTrainLeader);
  runner_->plan(own);
  if (pipeline_ != nullptr) trainer_.set_step_count(own.step);
  if (own.weights_come || own.moments_come)
    runner_->load_state(
        own, [this, own] { pipeline_ != nullptr ? load_own_stage(own) : snapshot_.restore(own, trainer_); });
  runner_->peers_linked(own.epoch);
}

// With one owner members have links to the leader alone, and the weights are few.
std::vector<cluster::BroadcastRow> TrainingLeader::tree_of(const cluster::BeginEpoch& action) const {
  if (pipeline_ != nullptr) return {};
  if (action.plan.shards.size() > 1) return cluster::broadcast_tree(action.weights_for);
  std::vector<cluster::BroadcastRow> rows{{.member = cluster::kTrainLeader, .from = cluster::kTrainLeader}};
  for (const cluster::TrainMemberId id : action.weights_for) {
    if (id == cluster::kTrainLeader) continue;
    rows[0].to.push_back(id);
    rows.push_back({.member = id, .from = cluster::kTrainLeader});
  }
  return rows;
}

// In parts, which members pass on while the next ones come.
void TrainingLeader::send_weights(const cluster::TrainPlan& plan,
                                  const std::vector<cluster::BroadcastRow>& tree) {
  if (tree[0].to.empty()) return;
  const train::ParameterLayout& layout = trainer_.layout();
  const TrainSnapshot::Views weights = snapshot_.weights();
  for (const train::Shard& blocks : cut_buckets(layout, layout.all(), run_.config().wire_bucket_bytes)) {
    TrainSnapshot::Views pieces;
    for (const train::NormBlock& run : layout.runs(blocks))
      pieces.push_back(weights[run.parameter].subspan(run.first * sizeof(float), run.count * sizeof(float)));
    const cluster::ValuesHead head{.what = cluster::TrainValues::kWeights,
                                   .all = true,
                                   .begin = static_cast<uint32_t>(blocks.begin),
                                   .end = static_cast<uint32_t>(blocks.end)};
    for (const cluster::TrainMemberId to : tree[0].to)
      if (const auto link = links_->of(to)) (void)link->send_values(plan.epoch, plan.step, head, pieces);
  }
}

// The run's arrays are those of the last snapshot.
void TrainingLeader::send_stage(TrainLink& link, const cluster::TrainPlan& plan, cluster::TrainMemberId id) {
  const auto weights = const_pieces(whole_weights(trainer_, plan, id, true));
  const auto moments = const_pieces(whole_moments(trainer_, plan, id));
  if (link.send_values(plan.epoch, plan.step, {.what = cluster::TrainValues::kWeights, .all = true}, weights))
    (void)link.send_values(plan.epoch, plan.step, {.what = cluster::TrainValues::kMoments}, moments);
}

void TrainingLeader::load_own_stage(const cluster::TrainPlan& plan) {
  copy_pieces(whole_weights(trainer_, plan, cluster::kTrainLeader, true),
              weights_read(pipeline_->stage(), plan, cluster::kTrainLeader));
  copy_pieces(whole_moments(trainer_, plan, cluster::kTrainLeader), moments_of(pipeline_->stage()));
}

// What the stages have becomes the run's.
void TrainingLeader::keep_stages(const cluster::KeepSnapshot& action) {
  cluster::TrainPlan plan;
  plan.shards = action.shards;
  const auto take = [&](cluster::TrainMemberId member, BytePieces from) {
    BytePieces to = whole_weights(trainer_, plan, member, false);
    for (const auto& piece : whole_moments(trainer_, plan, member)) to.push_back(piece);
    copy_pieces(from, to);
  };
  for (const auto& [member, bytes] : gathered_) take(member, {bytes.bytes()});
  if (!begun_) return;  // of the beginning: it is all here
  if (pipeline_->has_stage()) {
    BytePieces own = weights_taught(pipeline_->stage());
    for (const auto& piece : moments_of(pipeline_->stage())) own.push_back(piece);
    take(cluster::kTrainLeader, std::move(own));
  }
}

std::span<const train::MicroBatch> TrainingLeader::batches_of(uint64_t step) {
  if (step == current_step_) return current_;
  run_.fill_batch(step, again_);
  again_parts_ = run_.cut(again_);
  return again_parts_;
}

void TrainingLeader::send_inputs(TrainLink& link, cluster::Epoch epoch, uint64_t step,
                                 std::span<const train::MicroBatch> batches) {
  std::vector<std::span<const std::byte>> pieces;
  for (const train::MicroBatch& batch : batches) {
    pieces.push_back(std::as_bytes(batch.tokens));
    pieces.push_back(std::as_bytes(batch.pixels));
    pieces.push_back(std::as_bytes(batch.targets));
  }
  (void)link.send_values(epoch, step, {.what = cluster::TrainValues::kInputs}, pieces);
}

void TrainingLeader::perform(const cluster::DealStep& action) {
  const std::span<const train::MicroBatch> batches = batches_of(action.step);
  deal_ = action.deal;
  reports_.assign(batches.size(), {});
  leaf_targets_.clear();
  for (const train::MicroBatch& batch : batches) leaf_targets_.push_back(train::count_targets(batch));
  targets_seen_.clear();
  squares_.clear();
  compute_seconds_ = 0;
  bool trace = false;
  {
    const std::lock_guard lock(mutex_);
    trace = tracer_.begin(action.step, system_now());
  }
  const cluster::DealtStep message{.epoch = action.epoch,
                                   .step = action.step,
                                   .targets = train::step_shape(batches).targets,
                                   .deal = action.deal,
                                   .trace = trace};
  MemberInputs own;
  if (lead_.plan().pipelined()) {
    own.batches.assign(batches.begin(), batches.end());
    for (const cluster::TrainPlan::Member& member : lead_.plan().members)
      if (const auto link = links_->of(member.id); link != nullptr && link->send(message))
        send_inputs(*link, action.epoch, action.step, batches);
    return runner_->deal(message, std::move(own));
  }
  for (const cluster::DealtLeaves& dealt : action.deal) {
    const auto part = batches.subspan(dealt.leaves.begin, dealt.leaves.size());
    if (dealt.member == cluster::kTrainLeader) {
      own.batches.assign(part.begin(), part.end());
      continue;
    }
    const auto link = links_->of(dealt.member);
    if (link != nullptr && link->send(message) && !part.empty())
      send_inputs(*link, action.epoch, action.step, part);
  }
  runner_->deal(message, std::move(own));
}

void TrainingLeader::perform(const cluster::CutShort& action) {
  const cluster::CutDealtStep cut{action.epoch, action.step};
  for (const cluster::TrainMemberId id : action.members)
    if (const auto link = links_->of(id)) (void)link->send(cut);
}

size_t TrainingLeader::targets_seen() const {
  size_t seen = 0;
  for (const auto& [member, targets] : targets_seen_) seen += targets;
  return seen;
}

double TrainingLeader::merge_scale() const {
  size_t all = 0;
  for (const size_t targets : leaf_targets_) all += targets;
  const size_t seen = targets_seen();
  const bool whole = lead_.plan().pipelined() || seen == 0 || seen == all;
  return whole ? 1 : static_cast<double>(all) / static_cast<double>(seen);
}

void TrainingLeader::perform(const cluster::CommitStep& action) {
  std::vector<float> squares;
  std::map<cluster::TrainMemberId, size_t> taken;
  for (const cluster::OwnedShard& shard : lead_.plan().shards) {
    const auto from = squares_.at(shard.owner).begin() + static_cast<std::ptrdiff_t>(taken[shard.owner]);
    squares.insert(squares.end(), from, from + (shard.end - shard.begin));
    taken[shard.owner] += shard.end - shard.begin;
  }
  norm_ = trainer_.norm(squares);
  const cluster::CommitDealtStep commit{action.epoch, action.step, norm_, merge_scale()};
  for (const cluster::TrainPlan::Member& member : lead_.plan().members) {
    if (member.id == cluster::kTrainLeader || !lead_.plan().keeps_state(member.id)) continue;
    if (const auto link = links_->of(member.id)) (void)link->send(commit);
  }
  runner_->commit(commit);
}

void TrainingLeader::perform(const cluster::GatherState& action) {
  gather_began_ = system_now();
  gathered_.clear();
  const cluster::GatherTrainState gather{action.epoch, action.step};
  for (const cluster::TrainPlan::Member& member : lead_.plan().members) {
    if (member.id == cluster::kTrainLeader) continue;
    if (const auto link = links_->of(member.id)) (void)link->send(gather);
  }
  runner_->gather(gather);
}

// What others own comes from what they sent; the rest is here. Then Trainer::state() is whole too.
void TrainingLeader::perform(const cluster::KeepSnapshot& action) {
  cluster::TrainPlan plan;
  plan.shards = action.shards;
  plan.held = action.held;
  if (pipeline_ != nullptr) keep_stages(action);
  for (const auto& [member, bytes] : gathered_) {
    if (pipeline_ != nullptr) break;
    const std::byte* at = bytes.data();
    for (const auto& piece : kept_pieces(trainer_, plan, member)) {
      std::memcpy(piece.data(), at, piece.size());
      at += piece.size();
    }
  }
  gathered_.clear();
  if (usual_step_ > 0 && gather_began_ != TimePoint()) {
    constexpr double kCostMax = 0.05;  // of the steps between two
    const double steps = seconds_of(system_now() - gather_began_) / (kCostMax * usual_step_);
    lead_.set_snapshot_every(steps < static_cast<double>(options_.snapshot_every)
                                 ? static_cast<uint64_t>(std::ceil(steps))
                                 : options_.snapshot_every);
  }
  if (pipeline_ != nullptr)
    snapshot_.set_step(action.step);  // the run's own arrays are the snapshot
  else
    snapshot_.take(action.step, trainer_);
}

void TrainingLeader::perform(const cluster::DropMember& action) {
  const auto link = links_->of(action.member);
  if (link == nullptr) return;
  say(fmt::format("{} is dropped: {}", link->peer().name, action.why));
  (void)link->send(cluster::EndTraining{action.why});
  link->close();
}

TrainingReport TrainingLeader::report() const {
  TrainingReport report;
  report.step = lead_.step();
  report.counters = lead_.counters();
  report.plan = lead_.plan();
  report.wire = train::wire_mode_name(trainer_.wire().mode());
  report.parameter_bytes = trainer_.layout().total() * sizeof(float);
  report.steps_made = steps_made_;
  report.local_steps = run_.config().local_steps;
  const std::lock_guard lock(mutex_);
  report.trace = tracer_.last();
  for (const auto& [id, figures] : figures_) {
    TrainMemberReport row = figures;
    row.speed = lead_.speed(id);
    row.here = id == cluster::kTrainLeader || links_->of(id) != nullptr;
    if (const cluster::OwnedShard* shard = report.plan.shard_of(id)) {
      row.shard_begin = shard->begin;
      row.shard_end = shard->end;
    }
    if (id == cluster::kTrainLeader) {
      row.bytes_sent += links_->bytes_sent();
      row.bytes_received += links_->bytes_received();
    }
    report.members.push_back(std::move(row));
  }
  return report;
}

}  // namespace butterfly::runtime
