#include "train/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "base/cpu.h"
#include "base/error.h"
#include "graph/gradients.h"
#include "graph/recompute.h"
#include "kernels/optim/optimizer_update.h"
#include "train/optim/clip.h"
#include "train/trainer/batch_inputs.h"

namespace butterfly::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct FinalGradient {
  size_t nodes_end;  // when so many nodes have run
  size_t slot;
};

// When the bound gradients are whole, first things first: no node behind uses their memory.
std::vector<FinalGradient> final_gradients(const graph::Graph& graph) {
  std::vector<FinalGradient> finals(graph.slot_count());
  for (size_t slot = 0; slot < finals.size(); ++slot) finals[slot] = {graph.nodes().size(), slot};
  std::vector<bool> found(finals.size());
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const auto use = [&](graph::ValueId value) {
      const int32_t bound = graph.values()[value.index].slot;
      if (bound < 0 || found[static_cast<size_t>(bound)]) return;
      found[static_cast<size_t>(bound)] = true;
      finals[static_cast<size_t>(bound)].nodes_end = i + 1;
    };
    std::ranges::for_each(graph.nodes()[i].inputs, use);
    std::ranges::for_each(graph.nodes()[i].outputs, use);
  }
  std::ranges::stable_sort(finals, {}, &FinalGradient::nodes_end);
  return finals;
}

}  // namespace

// One graph for micro-batches of one size, with or without gradients.
struct Trainer::Lane {
  BuiltNetwork built;
  BatchRoom room;
  std::unique_ptr<graph::Executor> executor;
  std::vector<FinalGradient> finals;
};

struct Trainer::Worker {
  explicit Worker(const ThreadPool::Options& threads) : pool(threads) {}
  ThreadPool pool;
  graph::Arena arena;
  std::map<std::tuple<size_t, bool, size_t>, Lane> lanes;  // by items, training and length
  BatchRoom room;
};

Trainer::Trainer(const TrainableNetwork& network, const TrainerOptions& options)
    : network_(network), options_(options) {
  if (options.workers == 0) fail(Errc::kInvalidArgument, "trainer: 0 workers, expected at least 1");
  if (options.update_in_backward && (options.clip_norm > 0 || options.workers > 1))
    fail(Errc::kInvalidArgument, "trainer: update_in_backward excludes {}",
         options.workers > 1 ? "several workers" : "clipping, which needs all gradients first");
  if (options.update_in_backward && options.wire != WireMode::kExact)
    fail(Errc::kInvalidArgument,
         "trainer: update_in_backward excludes wire_mode {}: gradients are whole first",
         wire_mode_name(options.wire));
  if (options.slots == 0) fail(Errc::kInvalidArgument, "trainer: 0 slots, expected at least 1");
  // The parameters, in the order in which the network reads them.
  graph::Graph probe;
  const BuiltNetwork built = network.build(probe, 1, true);
  length_ = built.length;
  sequences_ = built.sequences;
  std::vector<const graph::Parameter*> parameters;
  for (const auto& gradient : graph::gradients(probe, built.loss.loss).parameters)
    parameters.push_back(gradient.parameter);
  layout_ = std::make_unique<ParameterLayout>(parameters);
  const bool local = makes_local_steps(options.wire);
  optimizer_ = make_optimizer(local ? OptimizerOptions{.name = "sgd",
                                                       .momentum = options.outer_momentum,
                                                       .nesterov = options.outer_momentum > 0}
                                    : options.optimizer,
                              *layout_);
  slot_floats_ = layout_->total();
  if (local) {
    for (size_t i = 0; i < layout_->size(); ++i)
      if (layout_->parameter(i).statistic)
        fail(
            Errc::kUnsupported,
            "wire_mode local-steps: {} is measured, not learnt, and a mean of changes has no meaning for it; "
            "choose another mode, or group_norm",
            layout_->parameter(i).name);
    inner_ = make_optimizer(options.optimizer, *layout_);
    slot_floats_ += (inner_->state_bytes() + sizeof(float) - 1) / sizeof(float);
  }
  tree_ = std::make_unique<GradientTree>(layout_->total());
  wire_ = std::make_unique<GradientWire>(*layout_, options.wire);
  residuals_.resize(has_residuals(options.wire) ? options.slots : 0);

  size_t threads = options.threads_per_worker;
  if (threads == 0) threads = std::max<size_t>(1, default_thread_count() / options.workers);
  for (size_t i = 0; i < options.workers; ++i)
    workers_.push_back(
        std::make_unique<Worker>(ThreadPool::Options{.threads = threads, .pin = options.workers == 1}));
  if (options.workers == 1) return;
  threads_ = std::make_unique<Workers>(options.workers);
  update_pool_ =
      std::make_unique<ThreadPool>(ThreadPool::Options{.threads = options.workers * threads, .pin = false});
}

Trainer::~Trainer() = default;

// Gradients go to the worker's flat array, or at once into the weights.
void Trainer::bind_gradients(graph::Graph& graph, const BuiltNetwork& built) {
  if (!options_.update_in_backward) {
    const auto found = graph::gradients(graph, built.loss.loss).parameters;
    BF_CHECK(found.size() == layout_->size());
    for (size_t i = 0; i < found.size(); ++i) {
      BF_CHECK(found[i].parameter == &layout_->parameter(i));
      const int32_t slot = graph.bind(found[i].value);
      BF_CHECK(static_cast<size_t>(slot) == i);
    }
    return;
  }
  graph::gradients(
      graph, built.loss.loss, {.finished = [this](graph::Graph& g, const graph::ParameterGradient& it) {
        size_t index = 0;
        while (&layout_->parameter(index) != it.parameter) ++index;
        const uint64_t bytes = layout_->count(index) * sizeof(float);
        graph::apply(
            g, it.value,
            [this, index](const float* gradient, ThreadPool& pool) {
              optimizer_->update(index, gradient, lr_, step_ + 1, 1, pool);
            },
            {.flops = 12 * layout_->count(index), .weight_bytes = 2 * bytes, .activation_bytes = 5 * bytes},
            it.parameter->name + ".update");
      }});
}

// `length`: of shorter sequences; 0: they are whole.
Trainer::Lane& Trainer::lane(Worker& worker, size_t items, bool training, size_t length) {
  Lane& lane = worker.lanes[{items, training, length}];
  if (lane.executor != nullptr) return lane;
  graph::Graph graph;
  lane.built = length == 0 ? network_.build(graph, items, training)
                           : network_.build_shorter(graph, items, training, length);
  const size_t forward_nodes = graph.nodes().size();
  if (training) bind_gradients(graph, lane.built);
  if (training && options_.recompute) {
    const graph::RecomputeChoice choice =
        graph::choose_recompute(graph, forward_nodes, {.threads = worker.pool.size()});
    if (!choice.segments.empty()) graph = graph::recompute(graph, forward_nodes, choice.segments);
  }
  lane.finals = final_gradients(graph);
  lane.executor = std::make_unique<graph::Executor>(std::move(graph), worker.arena, worker.pool);
  return lane;
}

const graph::Executor& Trainer::executor(size_t items, bool training) {
  return *lane(*workers_[0], items, training).executor;
}

ThreadPool& Trainer::update_pool() { return update_pool_ == nullptr ? workers_[0]->pool : *update_pool_; }

void Trainer::run_batch(Worker& worker, const MicroBatch& whole, size_t index, float factor, bool training,
                        LeafReport& report) {
  if (whole.targets.empty() || whole.targets.size() % length_ != 0)
    fail(Errc::kInvalidArgument, "micro-batch: expected items of {} targets, found {} targets", length_,
         whole.targets.size());
  MicroBatch batch = whole;
  size_t shorter = 0;
  if (const size_t unit = options_.shorten ? network_.length_unit() : 0; unit > 0) {
    const size_t length = length_ / sequences_, used = used_length(whole.targets, length, unit);
    if (used < length && whole.tokens.size() == whole.targets.size()) {
      shorter = used;
      batch = shortened(whole, length, used, worker.room);
    }
  }
  Lane& lane = this->lane(worker, whole.targets.size() / length_, training, shorter);
  graph::Executor& executor = *lane.executor;
  const bool keeps = training && !options_.update_in_backward;
  GradientSum gradients;
  if (keeps) {
    gradients = tree_->take();
    layout_->clear_gaps(gradients.values);
    for (size_t i = 0; i < layout_->size(); ++i)
      executor.bind(static_cast<int32_t>(i),
                    reinterpret_cast<std::byte*>(gradients.values + layout_->offset(i)));
  }
  fill_inputs(executor, lane.built, batch,
              {.factor = factor, .seed = options_.seed, .step = step_, .index = index}, lane.room);
  std::optional<GradientTree::Rest> rest;
  if (keeps && stream_ != nullptr) rest = tree_->take_rest(index - leaf_base_);
  if (rest)
    run_in_buckets(lane, {rest->top, std::move(gradients)}, rest->sums, worker.pool);
  else
    executor.run(nullptr);
  const graph::ValueId shown = lane.built.shown.valid() ? lane.built.shown : lane.built.loss.loss;
  report.loss = *executor.output(shown);
  const auto* correct = reinterpret_cast<const int32_t*>(executor.output(lane.built.loss.correct));
  report.correct = static_cast<size_t>(std::count(correct, correct + batch.targets.size(), 1));
  if (keeps && !rest) tree_->finish(index - leaf_base_, std::move(gradients), worker.pool);
}

void Trainer::run_in_buckets(Lane& lane, LeafSubtree subtree, std::span<const GradientSum> rest,
                             ThreadPool& pool) {
  graph::Executor& executor = *lane.executor;
  std::vector<size_t> missing = stream_->parameters_in();
  size_t at = 0;
  for (const FinalGradient& final : lane.finals) {
    executor.run_nodes(at, final.nodes_end);
    at = final.nodes_end;
    for (const size_t bucket : stream_->of_parameter(final.slot)) {
      if (--missing[bucket] > 0) continue;
      const Shard& part = stream_->buckets()[bucket];
      const size_t offset = layout_->shard_offset(part), floats = layout_->shard_floats(part);
      // Value by value as the tree adds whole arrays.
      for (const GradientSum& sum : rest)
        kernels::add_to(sum.values + offset, subtree.sum.values + offset, floats, pool);
      code(subtree, part);
      stream_->ready(subtree, bucket);
    }
  }
  executor.run_nodes(at, executor.graph().nodes().size());
}

double Trainer::run_all(std::span<const MicroBatch> batches, size_t first, size_t targets, bool training,
                        std::span<LeafReport> reports) {
  const float factor = 1.0f / static_cast<float>(targets);
  const auto work = [&](size_t worker, size_t item) {
    run_batch(*workers_[worker], batches[item], first + item, factor, training, reports[item]);
  };
  if (threads_ == nullptr) {
    for (size_t i = 0; i < batches.size(); ++i) work(0, i);
    return 1;
  }
  threads_->reset_times();
  threads_->run(batches.size(), work);
  return threads_->times().utilisation();
}

LeafSums Trainer::leaves(const StepShape& shape, size_t first, std::span<const MicroBatch> batches,
                         const LeafStream* stream, const std::atomic<bool>* cut) {
  lr_ = options_.schedule.rate(step_);
  coding_seconds_ = 0;
  if (inner_ != nullptr) return local_leaves(shape, first, batches, stream, cut);
  const LeafRange here{first, first + batches.size()};
  if (options_.wire != WireMode::kExact)
    for (const PairNode node : PairTree(shape.micro_batches).subtrees(here, slot_level(shape.micro_batches)))
      BF_CHECK(node.level == slot_level(shape.micro_batches)) << "a part of a slot: level " << node.level;
  if (!options_.update_in_backward) tree_->begin(shape.micro_batches, here, slot_level(shape.micro_batches));
  LeafSums sums;
  sums.reports.resize(batches.size());
  sums.made = batches.size();
  for (const MicroBatch& batch : batches) sums.targets += count_targets(batch);
  // Of several workers nobody knows which one will be the last of a subtree.
  if (threads_ == nullptr && !options_.update_in_backward) stream_ = stream;
  try {
    sums.utilisation = run_all(batches, first, shape.targets, true, sums.reports);
  } catch (...) {
    stream_ = nullptr;
    throw;
  }
  const bool streamed = std::exchange(stream_, nullptr) != nullptr;
  if (!options_.update_in_backward && !streamed)
    for (auto& [node, sum] : tree_->take_subtrees()) deliver({node, std::move(sum)}, sums, stream);
  sums.coding_seconds = coding_seconds_;
  return sums;
}

uint32_t Trainer::slot_level(size_t micro_batches) const {
  return options_.wire == WireMode::kExact ? PairTree::kLevelsMax
                                           : PairTree(micro_batches).level_of_at_most(options_.slots);
}

void Trainer::code(LeafSubtree& subtree, const Shard& part) {
  if (options_.wire == WireMode::kExact) return;
  const auto start = Clock::now();
  if (subtree.code == nullptr) subtree.code = std::make_shared<PooledArray<std::byte>>(wire_->bytes());
  wire_->encode(part, subtree.sum.values, residual(subtree.node.index), subtree.code->data(), update_pool());
  coding_seconds_ += seconds_since(start);
}

void Trainer::deliver(LeafSubtree subtree, LeafSums& sums, const LeafStream* stream) {
  if (stream == nullptr) {
    code(subtree, layout_->all());
    sums.subtrees.push_back(std::move(subtree));
    return;
  }
  for (size_t bucket = 0; bucket < stream->buckets().size(); ++bucket) {
    code(subtree, stream->buckets()[bucket]);
    stream->ready(subtree, bucket);
  }
}

float* Trainer::residual(size_t slot) {
  if (residuals_.empty()) return nullptr;
  std::vector<float>& values = residuals_.at(slot);
  values.resize(slot_floats_);
  return values.data();
}

std::vector<StateArray> Trainer::residuals(size_t begin, size_t end) {
  std::vector<StateArray> arrays;
  for (size_t slot = begin; slot < std::min(end, residuals_.size()); ++slot)
    arrays.push_back({"residual/" + std::to_string(slot),
                      std::as_writable_bytes(std::span(residual(slot), slot_floats_))});
  return arrays;
}

std::vector<float> Trainer::squares(const Shard& shard, const float* gradients) {
  return block_squares(*layout_, shard, gradients, update_pool());
}

double Trainer::norm(std::span<const float> squares) const {
  for (size_t i = 0; i < squares.size(); ++i) {
    const NormBlock& block = layout_->blocks()[i];
    if (!std::isfinite(squares[i]) && !layout_->parameter(block.parameter).statistic)
      fail(Errc::kInvalidArgument,
           "step {}: the gradient of {} is not finite, and the weights were left as they are; a smaller "
           "learning_rate or max_grad_norm may help",
           step_ + 1, layout_->parameter(block.parameter).name);
  }
  return gradient_norm(*layout_, squares);
}

void Trainer::update(const Shard& shard, const float* gradients, double norm, size_t micro_batches,
                     float scale) {
  // What comes from local steps was clipped there, and is a change that rates were already applied to.
  const bool local = inner_ != nullptr;
  optimizer_->update_shard(shard, gradients, local ? options_.outer_lr : options_.schedule.rate(step_),
                           step_ + 1, local ? scale : clip_scale(norm, options_.clip_norm), micro_batches,
                           update_pool());
}

StepShape step_shape(std::span<const MicroBatch> batches) {
  StepShape shape{.micro_batches = batches.size()};
  for (const MicroBatch& batch : batches) shape.targets += count_targets(batch);
  if (shape.targets == 0) fail(Errc::kInvalidArgument, "no target in {} micro-batches", batches.size());
  return shape;
}

StepReport step_report(const StepShape& shape, std::span<const LeafReport> reports) {
  StepReport total{.targets = shape.targets};
  for (const LeafReport& report : reports) {
    total.loss += report.loss;
    total.correct += report.correct;
  }
  return total;
}

StepReport Trainer::step(std::span<const MicroBatch> batches) {
  if (options_.update_in_backward && batches.size() != 1)
    fail(Errc::kInvalidArgument, "trainer: update_in_backward takes one micro-batch a step, found {}",
         batches.size());
  const auto start = Clock::now();
  const StepShape shape = step_shape(batches);
  LeafSums sums = leaves(shape, 0, batches);
  StepReport report = step_report(shape, sums.reports);
  report.utilisation = sums.utilisation;
  if (!options_.update_in_backward) {
    // Of all leaves: the whole sum, or slots of it.
    tree_->begin(batches.size());
    for (LeafSubtree& subtree : sums.subtrees)
      tree_->finish(subtree.node, std::move(subtree.sum), update_pool());
    const GradientSum gradients = tree_->result();
    report.grad_norm = norm(squares(layout_->all(), gradients.values));
    update(layout_->all(), gradients.values, report.grad_norm, batches.size());
  }
  ++step_;
  report.lr = lr_;
  report.seconds = seconds_since(start);
  return report;
}

StepReport Trainer::evaluate(std::span<const MicroBatch> batches) {
  const auto start = Clock::now();
  const StepShape shape = step_shape(batches);
  std::vector<LeafReport> reports(batches.size());
  const double utilisation = run_all(batches, 0, shape.targets, false, reports);
  StepReport report = step_report(shape, reports);
  report.utilisation = utilisation;
  report.seconds = seconds_since(start);
  return report;
}

std::vector<StateArray> Trainer::state() {
  std::vector<StateArray> arrays;
  for (const auto& [name, tensor] : network_.weights())
    arrays.push_back({"weights/" + name, {tensor.raw(), tensor.bytes()}});
  for (StateArray& array : optimizer_->state()) arrays.push_back(std::move(array));
  for (StateArray& array : residuals(0, residuals_.size())) arrays.push_back(std::move(array));
  return arrays;
}

TrainerMemory Trainer::memory() const {
  TrainerMemory memory{.frozen = network_.frozen_bytes()};
  for (const auto& [name, tensor] : network_.weights()) memory.weights += tensor.bytes();
  memory.gradients = tree_->buffers() * layout_->total() * sizeof(float);
  memory.optimizer = optimizer_->state_bytes();
  if (inner_ != nullptr) memory.optimizer += inner_->state_bytes();
  for (const auto& worker : workers_) {
    memory.activations += worker->arena.bytes();
    for (const auto& [key, lane] : worker->lanes)
      memory.live_max = std::max(memory.live_max, lane.executor->plan().live_bytes_max);
  }
  return memory;
}

}  // namespace butterfly::train
