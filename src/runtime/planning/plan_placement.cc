#include "runtime/planning/plan_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "runtime/chain/row_format.h"
#include "runtime/planning/memory_forecast.h"
#include "runtime/planning/placed_plan.h"
#include "runtime/planning/plan_model.h"
#include "runtime/planning/written_placement.h"

namespace butterfly::runtime {
namespace {

using cluster::PlanNode;
using cluster::PlanQuestion;

// Two neighbours of the chain, or members of one stage, of which the first cannot reach the second.
std::optional<std::pair<cluster::NodeId, cluster::NodeId>> broken_neighbours(
    const cluster::Placement& placement, const PlanQuestion& question) {
  const auto is_broken = [&](const cluster::NodeId& from, const cluster::NodeId& to) {
    return std::ranges::find(question.broken, std::pair(from.key, to.key)) != question.broken.end();
  };
  cluster::NodeId before = question.coordinator;
  for (const cluster::StagePlacement& stage : placement.stages) {
    if (is_broken(before, stage.first())) return std::pair(before, stage.first());
    before = stage.first();
    for (const cluster::StageMember& a : stage.members)
      for (const cluster::StageMember& b : stage.members)
        if (is_broken(a.node, b.node)) return std::pair(a.node, b.node);
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

// A question in the planner's terms.
struct Asked {
  NodeTable table;
  PlanRequest request;
  MemoryForecast all;  // of the whole model
};

const cluster::PartitionStrategy& strategy_of(const PlacementOptions& options) {
  if (options.written) return cluster::first_strategy(cluster::NodeChoice::kGiven);
  return options.strategy == nullptr ? cluster::default_strategy() : *options.strategy;
}

Result<Asked> for_planner(const model::ModelFile& file, const PlanQuestion& asked,
                          const PlacementOptions& options, const GroupChoice& groups) {
  const StageSettings& settings = options.settings;
  const model::ModelConfig config = model::read_config(file, settings.context);
  const size_t layers = config.layers;
  const auto row_bytes = static_cast<double>(find_row_format(settings.wire).row_bytes(config.row_cols()));
  const MemoryForecast all =
      forecast_memory(file, model::range_of_pieces(0, layers + 2, layers), settings, 1);
  const bool searched = strategy_of(options).nodes == cluster::NodeChoice::kSearched;
  // Strategies that leave nobody out do not ask what is faster.
  const bool grouped =
      !options.written && (searched || groups.always) && groups.most > 1 && asked.nodes.size() > 1;
  auto table = read_nodes(asked, {.type = main_type(file),
                                  .activation_bytes = all.activation_bytes + options.adapter_bytes +
                                                      kept_bytes(settings, config.row_cols()),
                                  .row_bytes = row_bytes,
                                  .with_front = searched,
                                  .with_groups = grouped,
                                  .unknown_link = options.unknown_link});
  if (!table) return table.status();
  PlanRequest request;
  request.workload.context = settings.context;
  request.workload.streams = std::max<size_t>(1, settings.positions / settings.context);
  request.workload.prompt = request.workload.rows_max = settings.rows_max;
  request.workload.wire_value_bytes = row_bytes / static_cast<double>(config.row_cols());
  request.choose_batch = options.objective == cluster::Objective::kThroughput;
  request.options.objective = options.objective;
  if (grouped) {
    request.options.group_size_max = std::min(groups.most, asked.nodes.size());
    if (groups.always) request.options.group_size_wanted = request.options.group_size_max;
    request.options.last_node = table->self;
  }
  request.strategies = {&strategy_of(options)};
  return Asked{*std::move(table), std::move(request), all};
}

// That stages of fewer than `wanted` nodes lack.
size_t missing_members(const cluster::Plan& plan, size_t wanted) {
  size_t missing = 0;
  for (const cluster::Stage& stage : plan.stages) missing += wanted - std::min(wanted, stage.nodes.size());
  return missing;
}

// Whether layers are shared, and what that gains, as far as is known before anything is loaded.
std::string gain_words(const cluster::Placement& placement, const cluster::Plan& plan,
                       const cluster::Problem& problem, const Result<cluster::Placement>& chain) {
  const std::string shared = group_words(plan, problem);
  if (shared.empty()) return "no layer is shared: that would not be faster";
  if (!chain)
    return fmt::format("{}; predicted {:.3g} tokens/s, and whole layers do not fit", shared,
                       placement.tokens_per_s);
  return fmt::format("{}; predicted {:.3g} tokens/s, with whole layers {:.3g}: {:.2f} x", shared,
                     placement.tokens_per_s, chain->tokens_per_s,
                     placement.tokens_per_s / chain->tokens_per_s);
}

Result<cluster::Placement> plan_once(const model::ModelFile& file, const PlanQuestion& asked,
                                     const PlacementOptions& options, const GroupChoice& groups) {
  auto prepared = for_planner(file, asked, options, groups);
  if (!prepared) return prepared.status();
  const NodeTable& table = prepared->table;
  PlanRequest& request = prepared->request;
  if (options.written) {
    auto written = find_nodes(*options.written, table.nodes);
    if (!written) return written.status();
    request.options.custom = *std::move(written);
    request.options.last_node = table.self;
  }
  const ModelPlan plan = plan_model(file, table.spec, request);
  const Result<cluster::PlannedChain>& planned = plan.outcomes.front().planned;
  if (!planned && planned.status().code() == Errc::kOutOfMemory)
    return Status(Errc::kOutOfMemory, too_little_memory(prepared->all, asked, planned.status().text()));
  if (!planned) return planned.status();
  cluster::Plan chosen = planned->plan;
  cluster::end_at(chosen, table.self);  // whoever has the end hands the head over
  cluster::Placement placement = placement_of(chosen, plan.problem, table);
  if (request.options.group_size_max > 1)
    placement.words = gain_words(placement, chosen, plan.problem,
                                 has_groups(chosen) ? plan_once(file, asked, options, {}) : placement);
  for (const std::string& reason : planned->reasons)
    if (!reason.starts_with(kFront)) placement.words += (placement.words.empty() ? "" : "; ") + reason;
  const auto current = asked.current ? plan_of(*asked.current, plan.problem, table) : std::nullopt;
  if (!current) return placement;
  placement.current_tokens_per_s = placement_of(*current, plan.problem, table).tokens_per_s;
  const size_t wanted = request.options.group_size_wanted;
  placement.asked_for = missing_members(chosen, wanted) < missing_members(*current, wanted);
  return placement;
}

Result<cluster::Placement> try_plan(const model::ModelFile& file, const PlanQuestion& asked,
                                    const PlacementOptions& options) {
  try {
    return plan_once(file, asked, options, options.groups);
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
    Result<cluster::Placement> placement = try_plan(file, left, options);
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
    auto prepared = for_planner(file, as_measured, options, options.groups);
    if (!prepared) return stay(prepared.status().text());
    prepared->request.strategies.clear();
    const cluster::Problem problem = plan_model(file, prepared->table.spec, prepared->request).problem;
    const auto current = plan_of(*asked.current, problem, prepared->table);
    if (!current) return stay("what is served is no chain of these nodes");
    if (has_groups(*current)) return stay("members wait for each other: who of them is slow is not known");
    std::vector<std::string> keys;
    cluster::BalanceMeasurement measured{.now_s = now_s, .slowness = {}};
    for (const PlanNode& node : prepared->table.nodes) {
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
