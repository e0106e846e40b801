#include "runtime/planning/plan_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "cluster/member/health.h"
#include "runtime/chain/row_format.h"
#include "runtime/planning/memory_forecast.h"
#include "runtime/planning/plan_model.h"
#include "runtime/planning/written_placement.h"

namespace butterfly::runtime {
namespace {

using cluster::ClusterSpec;
using cluster::LinkSpec;
using cluster::PlanNode;
using cluster::PlanQuestion;

constexpr LinkSpec kFree{.latency_s = 0, .bandwidth = 1e15};
constexpr LinkSpec kForbidden{.latency_s = 1e6, .bandwidth = 1e15};  // no plan is worth a step of 12 days
constexpr const char* kFront = "the front";                          // no name of a node has a blank
constexpr double kMemoryShare = 0.95;  // of what is free: allocators and stacks want some too

// Nodes as the planner gets them: the coordinator's own last, then, for strategies that choose the order, a
// node without memory from which the requests come. Its links say where a chain may begin and end.
struct Question {
  std::vector<PlanNode> nodes;
  ClusterSpec spec;
  size_t self = 0;
};

// `row_bytes`: of what a token sends over it.
LinkSpec link_between(const PlanQuestion& question, const PlanNode& from, const PlanNode& to,
                      const LinkSpec& unknown, double row_bytes) {
  const std::pair<std::string, std::string> pair(from.id.key, to.id.key);
  if (std::ranges::find(question.broken, pair) != question.broken.end()) return kForbidden;
  const auto there = question.links.find(pair);
  const auto back = question.links.find({pair.second, pair.first});
  const auto& found = there != question.links.end() ? there : back;
  if (found == question.links.end()) return unknown;
  const LinkSpec spec = found->second.spec_for(row_bytes);
  return spec.bandwidth > 0 ? spec : unknown;
}

// Names are for people, and unique but for keys that were copied.
std::string spec_name(const PlanNode& node, const std::vector<PlanNode>& nodes) {
  const auto same =
      std::ranges::count_if(nodes, [&](const PlanNode& other) { return other.id.name == node.id.name; });
  return same == 1 && !node.id.name.empty() ? node.id.name
                                            : fmt::format("{} ({})", node.id.name, node.id.key);
}

Result<Question> read_question(const model::ModelFile& file, const PlanQuestion& asked,
                               const PlacementOptions& options, uint64_t activation_bytes, double row_bytes,
                               bool with_front) {
  Question question;
  question.nodes = asked.nodes;
  const auto self = std::ranges::find(question.nodes, asked.coordinator, &PlanNode::id);
  if (self == question.nodes.end()) return Status(Errc::kNotFound, "the coordinator's own node is not ready");
  std::rotate(self, self + 1, question.nodes.end());
  question.self = question.nodes.size() - 1;
  const DType type = main_type(file);
  for (const PlanNode& node : question.nodes) {
    const auto usable = static_cast<uint64_t>(kMemoryShare * static_cast<double>(node.ram_free_bytes));
    question.spec.nodes.push_back(node_spec(node.capabilities, spec_name(node, question.nodes), type,
                                            usable - std::min(usable, activation_bytes)));
    cluster::slow_down(question.spec.nodes.back(), node.slowness);
  }
  if (with_front) {
    cluster::NodeSpec front = question.spec.nodes[question.self];
    front.name = kFront;
    front.ram_bytes = 0;
    question.spec.nodes.push_back(front);
  }
  const auto link = [&](size_t from, size_t to) {
    return link_between(asked, question.nodes[from], question.nodes[to], options.unknown_link, row_bytes);
  };
  const size_t count = question.nodes.size();
  question.spec.connect_all(options.unknown_link);
  question.spec.coordinator = question.spec.nodes.size() - 1;
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to)
      if (from != to)
        question.spec.link(from, to) = with_front && from == question.self ? kForbidden : link(from, to);
  if (!with_front) return question;
  for (size_t node = 0; node < count; ++node) {
    const bool is_self = node == question.self;
    question.spec.link(count, node) = is_self ? kFree : link(question.self, node);
    question.spec.link(node, count) = is_self ? kFree : kForbidden;
  }
  return question;
}

// Whoever has the end hands the head over to the coordinator.
void end_at(cluster::Plan& plan, size_t self) {
  cluster::Stage& last = plan.stages.back();
  if (last.nodes[0] == self) return;
  const size_t end = last.end--;
  if (last.size() == 0) plan.stages.pop_back();
  plan.stages.push_back({{self}, end - 1, end, {1.0}});
}

// Seconds less than at the sustained rate, of a stage that rests between its steps: its node has a quota on
// CPU time and finds it unused (cpu_share.h).
double saved_by_rest(const cluster::Capabilities& node, double sustained_s) {
  const double share = std::clamp(node.cpu_share, 1e-3, 1.0);
  return std::min(node.burst_s * (1 / share - 1), sustained_s * (1 - share));
}

// A plan that ends at the coordinator, with what it is predicted to do.
cluster::Placement placement_of(const cluster::Plan& plan, const cluster::Problem& problem,
                                const Question& question, cluster::Objective objective) {
  const cluster::Prediction prediction = cluster::predict(problem, plan);
  cluster::Placement placement;
  placement.pieces = static_cast<uint32_t>(problem.pieces());
  // With one stream a node rests while others work; no quota gives more than its share over a whole round.
  double latency_s = prediction.latency_s, longest_s = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const cluster::Stage& stage = plan.stages[i];
    cluster::StagePrediction expected = prediction.stages[i];
    longest_s = std::max(longest_s, expected.seconds);
    const double saved = plan.stages.size() > 1
                             ? saved_by_rest(question.nodes[stage.nodes[0]].capabilities, expected.seconds)
                             : 0;
    latency_s -= saved;
    expected.seconds -= saved;
    placement.stages.push_back({.members = {{.node = question.nodes[stage.nodes[0]].id,
                                             .memory_bytes = expected.weight_bytes + expected.kv_bytes,
                                             .predicted_s = expected.seconds}},
                                .begin = static_cast<uint32_t>(stage.begin),
                                .end = static_cast<uint32_t>(stage.end),
                                .stall_after = stall_limit(expected.prefill_s + expected.seconds)});
  }
  latency_s = std::max(latency_s, longest_s);
  placement.tokens_per_s = objective == cluster::Objective::kThroughput ? prediction.tokens_per_s
                           : latency_s > 0                              ? 1 / latency_s
                                                                        : 0;
  return placement;
}

// The plan that is served, in the numbers of this question; nothing if one of its nodes is not asked any
// more, or has a share only.
std::optional<cluster::Plan> plan_of(const cluster::Placement& placement, const Question& question) {
  cluster::Plan plan;
  for (const cluster::StagePlacement& stage : placement.stages) {
    const auto node = std::ranges::find(question.nodes, stage.first(), &PlanNode::id);
    if (node == question.nodes.end() || stage.members.size() != 1) return std::nullopt;
    plan.stages.push_back(
        {{static_cast<size_t>(node - question.nodes.begin())}, stage.begin, stage.end, {1.0}});
  }
  return plan;
}

// Two neighbours of the chain of which the first cannot reach the second.
std::optional<std::pair<cluster::NodeId, cluster::NodeId>> broken_neighbours(
    const cluster::Placement& placement, const PlanQuestion& question) {
  cluster::NodeId before = question.coordinator;
  for (const cluster::StagePlacement& stage : placement.stages) {
    const std::pair<std::string, std::string> pair(before.key, stage.first().key);
    if (std::ranges::find(question.broken, pair) != question.broken.end())
      return std::pair(before, stage.first());
    before = stage.first();
  }
  return std::nullopt;
}

// In how many pairs that do not work this node is one of the two.
size_t broken_pairs_with(const cluster::NodeId& node, const PlanQuestion& question) {
  return static_cast<size_t>(std::ranges::count_if(
      question.broken, [&](const auto& pair) { return pair.first == node.key || pair.second == node.key; }));
}

}  // namespace

DType main_type(const model::ModelFile& file) {
  const auto shares = file.type_shares();
  const auto type = shares.empty() ? std::nullopt : dtype_by_name(shares.front().type);
  return type.value_or(DType::kF32);
}

namespace {

// Which of the two it is: too little memory whoever shares it out, or a split that does not suit the nodes.
std::string too_little_memory(const MemoryForecast& all, const PlanQuestion& asked, const std::string& why) {
  uint64_t free = 0;
  for (const PlanNode& node : asked.nodes) free += node.ram_free_bytes;
  const std::string figures =
      fmt::format("the model needs {} of memory ({}); {} node{} {} free{}", format_bytes(all.total()),
                  all.words(), asked.nodes.size(), asked.nodes.size() == 1 ? " has" : "s have",
                  format_bytes(free), asked.nodes.size() == 1 ? "" : " together");
  if (kMemoryShare * static_cast<double>(free) < static_cast<double>(all.total()))
    return figures + ": too little memory; another node, a shorter context (-c) or fewer --parallel help";
  return figures + ": enough together, but not as it is split: " + why;
}

// All layers shared by some nodes, where that is wanted and faster than `chain` (if there is one), or asked
// for.
std::optional<cluster::Placement> shared_instead(const model::ModelFile& file, const PlanQuestion& asked,
                                                 const PlacementOptions& options,
                                                 const cluster::PieceList& pieces, uint64_t other_bytes,
                                                 double row_bytes, const cluster::Placement* chain) {
  if (options.groups.most < 2 || options.written || asked.nodes.size() < 2) return std::nullopt;
  // Without the front, whose links say where a chain may begin and end.
  const auto question = read_question(file, asked, options, other_bytes, row_bytes, false);
  if (!question) return std::nullopt;
  const cluster::Problem problem(pieces, question->spec, {.objective = options.objective});
  auto placement = group_placement(problem, question->nodes, question->self, options.groups, asked.broken);
  if (!placement) return std::nullopt;
  const bool faster = chain == nullptr || placement->tokens_per_s > chain->tokens_per_s;
  if (!faster && !options.groups.always) return std::nullopt;
  if (chain != nullptr)
    placement->words += fmt::format("; predicted {:.3g} tokens/s, a chain of whole layers {:.3g}",
                                    placement->tokens_per_s, chain->tokens_per_s);
  if (asked.current && asked.current->same_work(*placement))
    placement->current_tokens_per_s = placement->tokens_per_s;
  return placement;
}

// A question in the planner's terms.
struct Asked {
  Question question;
  PlanRequest request;
  MemoryForecast all;        // of the whole model
  uint64_t other_bytes = 0;  // of every node, beside weights and cache
  double row_bytes = 0;      // of what a token sends from stage to stage
};

const cluster::PartitionStrategy& strategy_of(const PlacementOptions& options) {
  if (options.written) return cluster::first_strategy(cluster::NodeChoice::kGiven);
  return options.strategy == nullptr ? cluster::default_strategy() : *options.strategy;
}

Result<Asked> for_planner(const model::ModelFile& file, const PlanQuestion& asked,
                          const PlacementOptions& options) {
  const StageSettings& settings = options.settings;
  const model::ModelConfig config = model::read_config(file, settings.context);
  const size_t layers = config.layers;
  const auto row_bytes = static_cast<double>(find_row_format(settings.wire).row_bytes(config.dim));
  const MemoryForecast all =
      forecast_memory(file, model::range_of_pieces(0, layers + 2, layers), settings, 1);
  const bool chooses_order = strategy_of(options).nodes == cluster::NodeChoice::kSearched;
  const uint64_t other_bytes = all.activation_bytes + kept_bytes(settings, config.dim);
  auto question = read_question(file, asked, options, other_bytes, row_bytes, chooses_order);
  if (!question) return question.status();
  PlanRequest request;
  request.workload.context = settings.context;
  request.workload.streams = std::max<size_t>(1, settings.positions / settings.context);
  request.workload.prompt = request.workload.rows_max = settings.rows_max;
  request.workload.wire_value_bytes = row_bytes / static_cast<double>(config.dim);
  request.choose_batch = options.objective == cluster::Objective::kThroughput;
  request.options.objective = options.objective;
  request.strategies = {&strategy_of(options)};
  return Asked{*std::move(question), std::move(request), all, other_bytes, row_bytes};
}

Result<cluster::Placement> plan_once(const model::ModelFile& file, const PlanQuestion& asked,
                                     const PlacementOptions& options) {
  try {
    auto prepared = for_planner(file, asked, options);
    if (!prepared) return prepared.status();
    Question* const question = &prepared->question;
    PlanRequest& request = prepared->request;
    if (options.written) {
      auto written = find_nodes(*options.written, question->nodes);
      if (!written) return written.status();
      request.options.custom = *std::move(written);
    }
    const ModelPlan plan = plan_model(file, question->spec, request);
    const Result<cluster::PlannedChain>& planned = plan.outcomes.front().planned;
    const auto shared = [&](const cluster::Placement* chain) {
      return shared_instead(file, asked, options, plan.problem.list(), prepared->other_bytes,
                            prepared->row_bytes, chain);
    };
    if (!planned)
      if (auto placement = shared(nullptr)) return *std::move(placement);
    if (!planned && planned.status().code() == Errc::kOutOfMemory)
      return Status(Errc::kOutOfMemory, too_little_memory(prepared->all, asked, planned.status().text()));
    if (!planned) return planned.status();
    cluster::Plan chosen = planned->plan;
    end_at(chosen, question->self);
    cluster::Placement placement = placement_of(chosen, plan.problem, *question, options.objective);
    for (const std::string& reason : planned->reasons)
      if (!reason.starts_with(kFront)) placement.words += (placement.words.empty() ? "" : "; ") + reason;
    if (const auto current = asked.current ? plan_of(*asked.current, *question) : std::nullopt;
        current && asked.current->pieces == placement.pieces)
      placement.current_tokens_per_s =
          placement_of(*current, plan.problem, *question, options.objective).tokens_per_s;
    if (auto instead = shared(&placement)) return *std::move(instead);
    return placement;
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  }
}

}  // namespace

Result<cluster::Placement> plan_placement(const model::ModelFile& file, const PlanQuestion& asked,
                                          const PlacementOptions& options) {
  PlanQuestion left = asked;
  std::string without;
  while (true) {
    Result<cluster::Placement> placement = plan_once(file, left, options);
    if (!placement)
      return without.empty() ? placement.status()
                             : Status(placement.status().code(), placement.status().text() + without);
    const auto broken = broken_neighbours(*placement, left);
    if (!broken) return placement;
    if (options.written)
      return Status(Errc::kNotFound,
                    fmt::format("{}: {} cannot reach {}, which has the next stage", options.written->name,
                                broken->first.name, broken->second.name));
    // Not every strategy looks for a way around. Without the one of the two that fewer can reach it finds
    // one.
    const bool drop_second =
        broken->first == left.coordinator ||
        (broken->second != left.coordinator &&
         broken_pairs_with(broken->second, left) >= broken_pairs_with(broken->first, left));
    const cluster::NodeId dropped = drop_second ? broken->second : broken->first;
    without += fmt::format("; without {}: {} cannot reach {}", dropped.name, broken->first.name,
                           broken->second.name);
    std::erase_if(left.nodes, [&](const PlanNode& node) { return node.id == dropped; });
  }
}

BalanceAnswer balance_placement(const model::ModelFile& file, const PlanQuestion& asked,
                                const std::map<std::string, double>& slowness, double now_s,
                                const PlacementOptions& options, PlacementBalance& balance) {
  const auto stay = [](std::string why) { return BalanceAnswer{false, {}, std::move(why)}; };
  if (&strategy_of(options) != &cluster::default_strategy()) return stay("the split was asked for");
  if (!asked.current) return stay("nothing is served");
  try {
    PlanQuestion as_measured = asked;  // when they joined
    for (PlanNode& node : as_measured.nodes) node.slowness = 1;
    auto prepared = for_planner(file, as_measured, options);
    if (!prepared) return stay(prepared.status().text());
    const auto current = plan_of(*asked.current, prepared->question);
    if (!current) return stay("what is served is no chain of these nodes");
    prepared->request.strategies.clear();
    const cluster::Problem problem = plan_model(file, prepared->question.spec, prepared->request).problem;
    std::vector<std::string> keys;
    cluster::BalanceMeasurement measured{.now_s = now_s, .slowness = {}};
    for (const PlanNode& node : prepared->question.nodes) {
      keys.push_back(node.id.key);
      const auto found = slowness.find(node.id.key);
      measured.slowness.push_back(found == slowness.end() ? std::nullopt : std::optional(found->second));
    }
    measured.slowness.resize(problem.nodes());  // where requests come from is no machine
    if (balance.keys != keys) {
      // What was remembered is about others; when it was moved last is not.
      balance.state.log_slowness.clear();
      balance.state.agreeing = 0;
      balance.keys = keys;
    }
    const cluster::BalanceDecision decision =
        cluster::rebalance(problem, *current, measured, std::move(balance.state));
    balance.state = decision.state;
    BalanceAnswer answer{.move = decision.move, .slowness = {}, .reason = decision.reason};
    for (size_t i = 0; i < keys.size(); ++i) answer.slowness[keys[i]] = decision.slowness[i];
    return answer;
  } catch (const Error& error) {
    return stay(error.what());
  }
}

}  // namespace butterfly::runtime
