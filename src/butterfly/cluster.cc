#include "butterfly/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cluster/balance/rebalance.h"
#include "cluster/partition/bounds.h"
#include "cluster/sim/sim_cluster.h"
#include "cluster/sim/simulator.h"
#include "runtime/planning/model_shape.h"
#include "runtime/planning/plan_model.h"

namespace butterfly {
namespace {

constexpr double kGiga = 1e9;
constexpr double kInt8PerFloat = 4;  // a float is as wide as four int8
constexpr size_t kGroupMax = 8;

cluster::LinkSpec spec_of(const Link& link) {
  return {.latency_s = link.latency_ms / 1e3, .bandwidth = link.gbit_per_s * kGiga / 8};
}

cluster::NodeSpec spec_of(const Node& node) {
  cluster::NodeSpec spec;
  spec.name = node.name;
  spec.threads = node.threads;
  const double threads = static_cast<double>(std::max<size_t>(1, node.threads));
  spec.f32 = {.one = node.gflops * kGiga / threads, .all = node.gflops * kGiga};
  spec.int8 = {.one = spec.f32.one * kInt8PerFloat, .all = spec.f32.all * kInt8PerFloat};
  spec.memory = {.one = node.memory_gb_per_s * kGiga / 2, .all = node.memory_gb_per_s * kGiga};
  if (node.threads == 1) spec.memory.one = spec.memory.all;
  spec.ram_bytes = static_cast<uint64_t>(std::max(0.0, node.ram_gb) * kGiga);
  spec.disk = node.disk_gb_per_s * kGiga;
  return spec;
}

cluster::ClusterSpec cluster_of(const std::vector<Node>& nodes, const Link& everywhere,
                                const std::map<std::pair<size_t, size_t>, Link>& links) {
  if (nodes.empty()) fail(Errc::kInvalidArgument, "the cluster has no nodes: add() some first");
  cluster::ClusterSpec spec;
  for (const Node& node : nodes) spec.nodes.push_back(spec_of(node));
  spec.connect_all(spec_of(everywhere));
  for (const auto& [ends, link] : links) spec.link(ends.first, ends.second) = spec_of(link);
  return spec;
}

uint32_t size_of(const char* name, size_t value) {
  if (value == 0 || value > UINT32_MAX)
    fail(Errc::kInvalidArgument, "Transformer: {} is {}, expected 1 to {}", name, value, UINT32_MAX);
  return static_cast<uint32_t>(value);
}

model::ModelFile file_of(const Transformer& model) {
  const auto type = dtype_by_name(model.weights);
  if (!type)
    fail(Errc::kInvalidArgument, "Transformer: weights '{}': no such type of elements", model.weights);
  model::RandomModelOptions options;
  options.block_count = size_of("layers", model.layers);
  options.embedding_length = size_of("dim", model.dim);
  options.head_count = size_of("heads", model.heads);
  options.head_count_kv = size_of("kv_heads", model.kv_heads > 0 ? model.kv_heads : model.heads);
  options.feed_forward_length = size_of("hidden", model.hidden > 0 ? model.hidden : 4 * model.dim);
  options.vocabulary_size = size_of("vocabulary", model.vocabulary);
  options.context_length = size_of("context", model.context);
  options.matrix_type = options.vocabulary_type = *type;
  if (options.embedding_length % options.head_count != 0)
    fail(Errc::kInvalidArgument, "Transformer: dim is {}, which {} heads cannot share", model.dim,
         model.heads);
  return runtime::shape_file(options, fmt::format("a transformer of {} layers", model.layers));
}

model::ModelFile file_of(const std::string& model) {
  const runtime::NamedShape* shape = runtime::find_shape(model);
  if (shape != nullptr && !std::filesystem::exists(model))
    return runtime::shape_file(*shape, DType::kQ4_0, DType::kQ6_K);
  return model::open_model(model);
}

runtime::PlanRequest request_of(const Demand& demand, const std::string& strategy) {
  runtime::PlanRequest request;
  request.workload.context = demand.context;
  request.workload.prompt = demand.prompt;
  request.workload.streams = std::max<size_t>(1, demand.streams);
  if (demand.streams > 1) {
    request.options.objective = cluster::Objective::kThroughput;
    request.choose_batch = true;
  }
  if (demand.share_layers) request.options.group_size_max = kGroupMax;
  request.strategies = {&cluster::find_strategy(strategy)};
  return request;
}

std::string nodes_text(const Part& part) {
  std::string text;
  for (size_t i = 0; i < part.nodes.size(); ++i)
    text += fmt::format("{}{}{}", i > 0 ? " + " : "", part.nodes[i],
                        part.nodes.size() > 1 ? fmt::format(" ({:.0f} %)", 100 * part.shares[i]) : "");
  return text;
}

std::string pieces_text(const Part& part) {
  std::string text = part.layer_count == 0   ? "no layers"
                     : part.layer_count == 1 ? fmt::format("layer {}", part.first_layer)
                                             : fmt::format("layers {}-{}", part.first_layer,
                                                           part.first_layer + part.layer_count - 1);
  if (part.embedding) text += ", embedding";
  if (part.head) text += ", head";
  return text;
}

}  // namespace

struct Partition::Impl {
  cluster::Problem problem;
  cluster::PlannedChain chain;
  std::vector<Part> parts;
  Quality quality;

  Impl(cluster::Problem p, cluster::PlannedChain c) : problem(std::move(p)), chain(std::move(c)) {
    const cluster::Prediction& predicted = chain.prediction;
    for (size_t i = 0; i < chain.plan.stages.size(); ++i)
      parts.push_back(part_of(chain.plan.stages[i], predicted.stages[i]));
    quality = {.ms_per_token = 1e3 * predicted.latency_s,
               .tokens_per_s = predicted.tokens_per_s,
               .first_token_s = predicted.first_token_s,
               .bound_ms = 1e3 * chain.lower_bound_s,
               .gap = chain.lower_bound_s > 0 ? chain.gap : 0,
               .load_balance = predicted.load_balance,
               .bytes_per_token = predicted.bytes_per_step / static_cast<double>(problem.list().batch),
               .hops = predicted.hops};
  }

  // Piece 0 is the embedding, the last one the head, and those between are the layers.
  Part part_of(const cluster::Stage& stage, const cluster::StagePrediction& predicted) const {
    Part part;
    for (const size_t node : stage.nodes) part.nodes.push_back(problem.cluster().nodes[node].name);
    part.shares = stage.shares.empty() ? std::vector<double>(stage.nodes.size(), 1.0) : stage.shares;
    const size_t last = problem.pieces() - 1;
    part.embedding = stage.begin == 0;
    part.head = stage.end == last + 1;
    const size_t begin = std::max<size_t>(stage.begin, 1), end = std::min(stage.end, last);
    part.first_layer = begin - 1;
    part.layer_count = end > begin ? end - begin : 0;
    part.ms = 1e3 * predicted.seconds;
    part.memory_gb = static_cast<double>(predicted.weight_bytes + predicted.kv_bytes) / kGiga;
    part.room_gb = static_cast<double>(predicted.room_bytes) / kGiga;
    return part;
  }

  static std::shared_ptr<const Impl> of(runtime::ModelPlan plan) {
    return std::make_shared<const Impl>(std::move(plan.problem),
                                        std::move(plan.outcomes.front().planned).or_throw());
  }
};

const std::string& Partition::strategy() const { return impl_->chain.strategy; }
const std::vector<Part>& Partition::parts() const { return impl_->parts; }
const Quality& Partition::quality() const { return impl_->quality; }
const std::vector<std::string>& Partition::reasons() const { return impl_->chain.reasons; }

std::string Partition::text() const {
  std::string text = fmt::format("{}:\n", strategy());
  for (const Part& part : parts())
    text += fmt::format("  {:<12} {:<28} {:>8.2f} ms {:>7.2f} of {:.2f} GB\n", nodes_text(part),
                        pieces_text(part), part.ms, part.memory_gb, part.room_gb);
  const Quality& q = quality();
  text += fmt::format("  {:.2f} ms per token, {:.1f} tokens/s, load balance {:.2f}, {} hop{}", q.ms_per_token,
                      q.tokens_per_s, q.load_balance, q.hops, q.hops == 1 ? "" : "s");
  if (q.bound_ms > 0) text += fmt::format(", {:.1f} % above the bound", 100 * q.gap);
  return text + "\n";
}

Rebalanced Partition::balance(const std::map<std::string, double>& slowness) const {
  const cluster::Problem& problem = impl_->problem;
  cluster::BalanceMeasurement measured;
  measured.slowness.assign(problem.nodes(), 1.0);
  for (const auto& [name, factor] : slowness) {
    const auto node = problem.cluster().find(name);
    if (!node) fail(Errc::kInvalidArgument, "balance: there is no node '{}'", name);
    if (!(factor > 0))
      fail(Errc::kInvalidArgument, "balance: node {}: {} is no factor above 0", name, factor);
    measured.slowness[*node] = factor;
  }
  // What is given here is known, not measured once among others.
  const cluster::BalanceDecision decision =
      cluster::rebalance(problem, impl_->chain.plan, measured, {}, {.window = 1, .confirmations = 1});
  cluster::Problem now = cluster::slowed(problem, decision.slowness);
  cluster::PlannedChain chain{.strategy = decision.move ? "optimal" : strategy(),
                              .plan = decision.plan,
                              .prediction = cluster::predict(now, decision.plan),
                              .objective_s = 0,
                              .lower_bound_s = 0,
                              .gap = 0,
                              .reasons = {decision.reason}};
  chain.objective_s = cluster::objective_seconds(now, chain.prediction);
  return {.move = decision.move,
          .plan = Partition(std::make_shared<const Impl>(std::move(now), std::move(chain))),
          .ms_before = 1e3 * decision.current_s,
          .ms_after = 1e3 * decision.planned_s,
          .moving_s = decision.moving_s,
          .reason = decision.reason};
}

Played Partition::simulate(const Load& load) const {
  cluster::Workload workload;
  workload.requests = load.requests;
  workload.rate = load.per_second;
  workload.clients = load.clients;
  workload.prompt_min = workload.prompt_max = load.prompt;
  workload.generate_min = workload.generate_max = load.generate;
  workload.batch_max = load.batch_max;
  workload.seed = load.seed;
  const cluster::SimReport report =
      cluster::simulate(cluster::sim_cluster(impl_->problem, impl_->chain.plan), workload);
  Played played{.seconds = report.end_s,
                .tokens_per_s = report.tokens_per_s,
                .first_token_p50_s = report.first_token_s.p50,
                .first_token_p95_s = report.first_token_s.p95,
                .token_p50_s = report.token_s.p50,
                .token_p95_s = report.token_s.p95,
                .busy = {}};
  for (const cluster::SimStageReport& stage : report.stages) played.busy.push_back(stage.utilisation);
  return played;
}

void Cluster::add(Node node) {
  if (node.name.empty()) fail(Errc::kInvalidArgument, "node {}: has no name", nodes_.size() + 1);
  for (const Node& other : nodes_)
    if (other.name == node.name)
      fail(Errc::kInvalidArgument, "node {}: there is one of this name", node.name);
  nodes_.push_back(std::move(node));
}

size_t Cluster::index_of(const std::string& name) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].name == name) return i;
  fail(Errc::kInvalidArgument, "link: there is no node '{}'", name);
}

void Cluster::connect(const std::string& from, const std::string& to, Link link) {
  const size_t a = index_of(from), b = index_of(to);
  links_[{a, b}] = links_[{b, a}] = link;
}

std::vector<std::string> Cluster::strategies() {
  std::vector<std::string> names;
  for (const cluster::PartitionStrategy& row : cluster::partition_strategies())
    if (row.nodes != cluster::NodeChoice::kGiven) names.emplace_back(row.name);
  return names;
}

Partition Cluster::partition(const Transformer& model, const std::string& strategy,
                             const Demand& demand) const {
  return Partition(Partition::Impl::of(runtime::plan_model(
      file_of(model), cluster_of(nodes_, everywhere_, links_), request_of(demand, strategy))));
}

Partition Cluster::partition(const std::string& model, const std::string& strategy,
                             const Demand& demand) const {
  return Partition(Partition::Impl::of(runtime::plan_model(
      file_of(model), cluster_of(nodes_, everywhere_, links_), request_of(demand, strategy))));
}

}  // namespace butterfly
