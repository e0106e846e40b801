#include "train/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/rng.h"
#include "graph/gradients.h"
#include "graph/recompute.h"
#include "train/optim/clip.h"

namespace butterfly::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

size_t count_targets(const MicroBatch& batch) {
  return static_cast<size_t>(
      std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t target) { return target >= 0; }));
}

template <typename T>
void fill(graph::Executor& executor, graph::ValueId value, std::span<const T> from, const char* what) {
  if (!value.valid()) return;
  const size_t bytes = executor.graph().type(value).bytes();
  if (from.size_bytes() != bytes)
    fail(Errc::kInvalidArgument, "micro-batch: expected {} {}, found {}", bytes / sizeof(T), what,
         from.size());
  std::memcpy(executor.input(value), from.data(), bytes);
}

}  // namespace

// One graph for micro-batches of one size, with or without gradients.
struct Trainer::Lane {
  BuiltNetwork built;
  std::vector<int32_t> positions;
  std::unique_ptr<graph::Executor> executor;
};

struct Trainer::Worker {
  explicit Worker(const ThreadPool::Options& threads) : pool(threads) {}
  ThreadPool pool;
  graph::Arena arena;
  std::map<std::pair<size_t, bool>, Lane> lanes;  // by items and training
};

Trainer::Trainer(const TrainableNetwork& network, const TrainerOptions& options)
    : network_(network), options_(options) {
  if (options.workers == 0) fail(Errc::kInvalidArgument, "trainer: 0 workers, expected at least 1");
  if (options.update_in_backward && (options.clip_norm > 0 || options.workers > 1))
    fail(Errc::kInvalidArgument, "trainer: update_in_backward excludes {}",
         options.workers > 1 ? "several workers" : "clipping, which needs all gradients first");
  // The parameters, in the order in which the network reads them.
  graph::Graph probe;
  const BuiltNetwork built = network.build(probe, 1, true);
  length_ = built.length;
  std::vector<const graph::Parameter*> parameters;
  for (const auto& gradient : graph::gradients(probe, built.loss.loss).parameters)
    parameters.push_back(gradient.parameter);
  layout_ = std::make_unique<ParameterLayout>(parameters);
  optimizer_ = make_optimizer(options.optimizer, *layout_);
  tree_ = std::make_unique<GradientTree>(layout_->total());

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

Trainer::Lane& Trainer::lane(Worker& worker, size_t items, bool training) {
  Lane& lane = worker.lanes[{items, training}];
  if (lane.executor != nullptr) return lane;
  graph::Graph graph;
  lane.built = network_.build(graph, items, training);
  for (size_t i = 0; i < items; ++i)
    for (size_t t = 0; t < lane.built.length; ++t) lane.positions.push_back(static_cast<int32_t>(t));
  const size_t forward_nodes = graph.nodes().size();
  if (training) bind_gradients(graph, lane.built);
  if (training && options_.recompute) {
    const graph::RecomputeChoice choice =
        graph::choose_recompute(graph, forward_nodes, {.threads = worker.pool.size()});
    if (!choice.segments.empty()) graph = graph::recompute(graph, forward_nodes, choice.segments);
  }
  lane.executor = std::make_unique<graph::Executor>(std::move(graph), worker.arena, worker.pool);
  return lane;
}

const graph::Executor& Trainer::executor(size_t items, bool training) {
  return *lane(*workers_[0], items, training).executor;
}

void Trainer::run_batch(Worker& worker, const MicroBatch& batch, size_t index, float factor, bool training,
                        StepReport& report) {
  if (batch.targets.empty() || batch.targets.size() % length_ != 0)
    fail(Errc::kInvalidArgument, "micro-batch: expected items of {} targets, found {} targets", length_,
         batch.targets.size());
  Lane& lane = this->lane(worker, batch.targets.size() / length_, training);
  graph::Executor& executor = *lane.executor;
  const bool keeps = training && !options_.update_in_backward;
  Buffer gradients;
  if (keeps) {
    gradients = tree_->take();
    for (size_t i = 0; i < layout_->size(); ++i)
      executor.bind(static_cast<int32_t>(i), gradients.data() + layout_->offset(i) * sizeof(float));
  }
  fill(executor, lane.built.tokens, batch.tokens, "tokens");
  fill(executor, lane.built.pixels, batch.pixels, "pixel values");
  fill(executor, lane.built.targets, batch.targets, "targets");
  fill<int32_t>(executor, lane.built.positions, lane.positions, "positions");
  fill<float>(executor, lane.built.factor, {&factor, 1}, "factors");
  const uint64_t key = random_u64(options_.seed, step_, index);
  const int32_t words[2] = {static_cast<int32_t>(key), static_cast<int32_t>(key >> 32)};
  fill<int32_t>(executor, lane.built.dropout_key, words, "words");
  executor.run(nullptr);
  report.loss = *executor.output(lane.built.loss.loss);
  const auto* correct = reinterpret_cast<const int32_t*>(executor.output(lane.built.loss.correct));
  report.correct = static_cast<size_t>(std::count(correct, correct + batch.targets.size(), 1));
  if (keeps) tree_->finish(index, std::move(gradients), worker.pool);
}

StepReport Trainer::run_all(std::span<const MicroBatch> batches, bool training) {
  StepReport total;
  for (const MicroBatch& batch : batches) total.targets += count_targets(batch);
  if (total.targets == 0) fail(Errc::kInvalidArgument, "no target in {} micro-batches", batches.size());
  const float factor = 1.0f / static_cast<float>(total.targets);
  std::vector<StepReport> reports(batches.size());
  const auto work = [&](size_t worker, size_t item) {
    run_batch(*workers_[worker], batches[item], item, factor, training, reports[item]);
  };
  if (threads_ == nullptr) {
    for (size_t i = 0; i < batches.size(); ++i) work(0, i);
    total.utilisation = 1;
  } else {
    threads_->reset_times();
    threads_->run(batches.size(), work);
    total.utilisation = threads_->times().utilisation();
  }
  for (const StepReport& report : reports) {
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
  lr_ = options_.schedule.rate(step_);
  if (!options_.update_in_backward) tree_->begin(batches.size());
  StepReport report = run_all(batches, true);
  if (!options_.update_in_backward) {
    ThreadPool& pool = update_pool_ == nullptr ? workers_[0]->pool : *update_pool_;
    const Buffer gradients = tree_->result();
    const auto* values = reinterpret_cast<const float*>(gradients.data());
    report.grad_norm = gradient_norm(*layout_, values, pool);
    optimizer_->update_all(values, lr_, step_ + 1, clip_scale(report.grad_norm, options_.clip_norm),
                           batches.size(), pool);
  }
  ++step_;
  report.lr = lr_;
  report.seconds = seconds_since(start);
  return report;
}

StepReport Trainer::evaluate(std::span<const MicroBatch> batches) {
  const auto start = Clock::now();
  StepReport report = run_all(batches, false);
  report.seconds = seconds_since(start);
  return report;
}

std::vector<StateArray> Trainer::state() {
  std::vector<StateArray> arrays;
  for (const auto& [name, tensor] : network_.weights())
    arrays.push_back({"weights/" + name, {tensor.raw(), tensor.bytes()}});
  for (StateArray& array : optimizer_->state()) arrays.push_back(std::move(array));
  return arrays;
}

TrainerMemory Trainer::memory() const {
  TrainerMemory memory;
  for (const auto& [name, tensor] : network_.weights()) memory.weights += tensor.bytes();
  memory.gradients = tree_->buffers() * layout_->total() * sizeof(float);
  memory.optimizer = optimizer_->state_bytes();
  for (const auto& worker : workers_) {
    memory.activations += worker->arena.bytes();
    for (const auto& [key, lane] : worker->lanes)
      memory.live_max = std::max(memory.live_max, lane.executor->plan().live_bytes_max);
  }
  return memory;
}

}  // namespace butterfly::train
