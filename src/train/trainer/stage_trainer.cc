#include "train/trainer/stage_trainer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "graph/gradients.h"
#include "graph/recompute.h"
#include "kernels/elementwise/scatter.h"
#include "train/optim/clip.h"

namespace butterfly::train {
namespace {

struct StageGraph {
  graph::Graph graph;
  BuiltNetwork built;
  size_t forward_nodes = 0;
  graph::ValueId seed;      // the gradient of the output, filled before the backward pass
  graph::ValueId gradient;  // of what came in, or of rows of the table
  std::vector<graph::ParameterGradient> parameters;
};

StageGraph build_graph(const TrainableNetwork& network, size_t items, bool table_is_elsewhere) {
  StageGraph stage;
  graph::Graph& g = stage.graph;
  stage.built = network.build(g, items, true);
  const BuiltNetwork& built = stage.built;
  graph::GradientOptions options;
  if (built.hidden.valid())
    options.inputs = {built.hidden};
  else if (table_is_elsewhere)
    options.inputs = {built.embedded};
  if (built.output.valid()) stage.seed = g.input("output.grad", g.type(built.output));
  stage.forward_nodes = g.nodes().size();
  graph::Gradients found = built.output.valid()
                               ? graph::gradients(g, graph::SeededGradient{built.output, stage.seed}, options)
                               : graph::gradients(g, built.loss.loss, options);
  if (!found.inputs.empty() && found.inputs[0].valid()) {
    stage.gradient = found.inputs[0];
    g.mark_output(stage.gradient);
  }
  stage.parameters = std::move(found.parameters);
  return stage;
}

}  // namespace

std::vector<size_t> numbers_among(std::span<const std::string> all, std::span<const std::string> part) {
  std::map<std::string, std::vector<size_t>> places;
  for (size_t i = all.size(); i-- > 0;) places[all[i]].push_back(i);
  std::vector<size_t> numbers;
  for (const std::string& name : part) {
    const auto found = places.find(name);
    if (found == places.end() || found->second.empty())
      fail(Errc::kInvalidArgument, "[pipeline stage] parameter {} is none of the network's {}", name,
           all.size());
    numbers.push_back(found->second.back());
    found->second.pop_back();
  }
  return numbers;
}

// Of one micro-batch that is on its way.
struct StageTrainer::Lane {
  StageGraph stage;  // without its graph
  graph::Arena arena;
  std::unique_ptr<graph::Executor> executor;
  BatchRoom room;
  GradientSum gradients;
  size_t targets = 0;
};

StageTrainer::StageTrainer(const TrainableNetwork& network, const StageOptions& options)
    : network_(network),
      options_(options),
      pool_(ThreadPool::Options{.threads = options.trainer.threads_per_worker, .pin = true}) {
  BF_CHECK(options.in_flight > 0 && options.items > 0);
  StageGraph probe = build_graph(network, 1, options.table_elsewhere);
  first_ = !probe.built.hidden.valid();
  last_ = !probe.built.output.valid();
  const graph::ValueId rows = first_ ? probe.built.embedded : probe.built.hidden;
  const graph::ValueType& type = probe.graph.type(rows);
  row_floats_ = options.items * type.rows() * type.cols();

  std::vector<std::string> names;
  for (const graph::ParameterGradient& it : probe.parameters) names.push_back(it.parameter->name);
  const std::vector<size_t> numbers = numbers_among(options.names, names);
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return numbers[i]; });
  std::vector<const graph::Parameter*> parameters;
  std::vector<size_t> sorted;
  place_.resize(order.size());
  for (const size_t i : order) {
    place_[i] = parameters.size();
    parameters.push_back(probe.parameters[i].parameter);
    sorted.push_back(numbers[i]);
  }
  layout_ = std::make_unique<ParameterLayout>(parameters, sorted);
  optimizer_ = make_optimizer(options.trainer.optimizer, *layout_);
  if (options.shares_table)
    BF_CHECK(last_ && !sorted.empty() && sorted[0] == 0) << "a shared table is the first parameter of all";
  tree_ = std::make_unique<GradientTree>(layout_->total() - table_floats());
  if (options.shares_table) table_tree_ = std::make_unique<GradientTree>(table_floats());
  for (size_t i = 0; i < options.in_flight; ++i) lanes_.push_back(std::make_unique<Lane>());
}

StageTrainer::~StageTrainer() = default;

size_t StageTrainer::table_floats() const {
  if (!options_.shares_table) return 0;
  return layout_->size() > 1 ? layout_->offset(1) : layout_->total();
}

void StageTrainer::build(Lane& lane) {
  lane.stage = build_graph(network_, options_.items, options_.table_elsewhere);
  graph::Graph graph = std::move(lane.stage.graph);
  BF_CHECK(lane.stage.parameters.size() == place_.size());
  for (size_t i = 0; i < place_.size(); ++i)
    BF_CHECK(static_cast<size_t>(graph.bind(lane.stage.parameters[i].value)) == i);
  if (options_.trainer.recompute) {
    const graph::RecomputeChoice choice =
        graph::choose_recompute(graph, lane.stage.forward_nodes, {.threads = pool_.size()});
    if (!choice.segments.empty()) graph = graph::recompute(graph, lane.stage.forward_nodes, choice.segments);
  }
  lane.executor = std::make_unique<graph::Executor>(std::move(graph), lane.arena, pool_);
}

StageTrainer::Lane& StageTrainer::lane(size_t index) {
  Lane& lane = *lanes_[index % lanes_.size()];
  if (lane.executor == nullptr) build(lane);
  return lane;
}

void StageTrainer::begin(uint64_t step, const StepShape& shape) {
  step_ = step;
  shape_ = shape;
  sum_ = table_sum_ = {};
  tables_.clear();
  tables_.resize(table_tree_ == nullptr ? 0 : shape.micro_batches);
  tree_->begin(shape.micro_batches);
  if (table_tree_ != nullptr) table_tree_->begin(shape.micro_batches);
}

std::span<const float> StageTrainer::forward(size_t index, const MicroBatch& batch,
                                             std::span<const float> hidden) {
  Lane& lane = this->lane(index);
  graph::Executor& executor = *lane.executor;
  const BuiltNetwork& built = lane.stage.built;
  if (last_) bind_gradients(lane, index);  // a loss leaves some of them on the way
  fill_inputs(executor, built, batch,
              {.factor = 1.0f / static_cast<float>(shape_.targets),
               .seed = options_.trainer.seed,
               .step = step_,
               .index = index},
              lane.room);
  lane.targets = batch.targets.size();
  if (built.hidden.valid()) {
    BF_CHECK(hidden.size() == row_floats_) << hidden.size() << " floats";
    std::memcpy(executor.input(built.hidden), hidden.data(), hidden.size_bytes());
  }
  executor.run_nodes(0, lane.stage.forward_nodes);
  if (last_) return {};
  return {executor.output(built.output), row_floats_};
}

void StageTrainer::bind_gradients(Lane& lane, size_t index) {
  lane.gradients = tree_->take();
  if (table_tree_ != nullptr) tables_[index] = table_tree_->take();
  const size_t table = table_floats();
  for (size_t i = 0; i < place_.size(); ++i) {
    const size_t p = place_[i];
    float* values =
        p == 0 && table > 0 ? tables_[index].values : lane.gradients.values + (layout_->offset(p) - table);
    lane.executor->bind(static_cast<int32_t>(i), reinterpret_cast<std::byte*>(values));
    const size_t room =
        (p + 1 < layout_->size() ? layout_->offset(p + 1) : layout_->total()) - layout_->offset(p);
    std::fill(values + layout_->count(p), values + room, 0.0f);
  }
}

std::span<const float> StageTrainer::backward(size_t index, std::span<const float> gradient) {
  Lane& lane = this->lane(index);
  graph::Executor& executor = *lane.executor;
  if (!last_) {
    bind_gradients(lane, index);
    BF_CHECK(gradient.size() == row_floats_) << gradient.size() << " floats";
    std::memcpy(executor.input(lane.stage.seed), gradient.data(), gradient.size_bytes());
  }
  executor.run_nodes(lane.stage.forward_nodes, executor.graph().nodes().size());
  tree_->finish(index, std::move(lane.gradients), pool_);
  if (!lane.stage.gradient.valid()) return {};
  return {executor.output(lane.stage.gradient), row_floats_};
}

void StageTrainer::add_rows(size_t index, std::span<const int32_t> tokens, std::span<const float> rows) {
  const graph::Parameter& table = layout_->parameter(0);
  BF_CHECK(table_tree_ != nullptr && rows.size() == row_floats_ &&
           tokens.size() * table.cols() == rows.size());
  BatchRoom room;
  ids_of(tokens, room.tokens);
  GradientSum sum = std::move(tables_[index]);
  pool_.parallel_for(table.cols(), 1, [&](size_t begin, size_t end) {
    kernels::scatter_add(rows.data(), room.tokens, table.cols(), begin, end, sum.values, table.rows());
  });
  table_tree_->finish(index, std::move(sum), pool_);
}

LeafReport StageTrainer::report(size_t index) const {
  const Lane& lane = *lanes_[index % lanes_.size()];
  const graph::Loss& loss = lane.stage.built.loss;
  const auto* correct = reinterpret_cast<const int32_t*>(lane.executor->output(loss.correct));
  return {.loss = *lane.executor->output(loss.loss),
          .correct = static_cast<size_t>(std::count(correct, correct + lane.targets, 1))};
}

Shard StageTrainer::table_shard() const {
  size_t end = 0;
  if (table_tree_ != nullptr)
    while (end < layout_->blocks().size() && layout_->blocks()[end].parameter == 0) ++end;
  return {0, end};
}

std::vector<float> StageTrainer::reduce() {
  const Shard table = table_shard(), rest{table.end, layout_->blocks().size()};
  std::vector<float> squares;
  if (table_tree_ != nullptr) {
    table_sum_ = table_tree_->result();
    squares = block_squares(*layout_, table, table_sum_.values, pool_);
  }
  sum_ = tree_->result();
  const std::vector<float> others = block_squares(*layout_, rest, sum_.values, pool_);
  squares.insert(squares.end(), others.begin(), others.end());
  return squares;
}

void StageTrainer::update(double norm) {
  const Shard table = table_shard(), rest{table.end, layout_->blocks().size()};
  const TrainerOptions& options = options_.trainer;
  const auto apply = [&](const Shard& shard, const GradientSum& sum) {
    optimizer_->update_shard(shard, sum.values, options.schedule.rate(step_), step_ + 1,
                             clip_scale(norm, options.clip_norm), shape_.micro_batches, pool_);
  };
  if (table_tree_ != nullptr) apply(table, table_sum_);
  apply(rest, sum_);
  sum_ = table_sum_ = {};
}

TrainerMemory StageTrainer::memory() const {
  TrainerMemory memory;
  for (const auto& [name, tensor] : network_.weights()) memory.weights += tensor.bytes();
  memory.gradients = tree_->buffers() * tree_->floats() * sizeof(float);
  if (table_tree_ != nullptr)
    memory.gradients += table_tree_->buffers() * table_tree_->floats() * sizeof(float);
  memory.optimizer = optimizer_->state_bytes();
  for (const auto& lane : lanes_) {
    memory.activations += lane->arena.bytes();
    if (lane->executor != nullptr)
      memory.live_max = std::max(memory.live_max, lane->executor->plan().live_bytes_max);
  }
  return memory;
}

}  // namespace butterfly::train
