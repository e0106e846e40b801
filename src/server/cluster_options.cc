#include "server/cluster_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "cluster/lead/mandate.h"

namespace butterfly::server {
namespace {

cluster::Objective objective_of(const Settings& settings) {
  if (settings.objective == "latency") return cluster::Objective::kLatency;
  if (settings.objective == "throughput") return cluster::Objective::kThroughput;
  fail(Errc::kInvalidArgument, "--plan-for {}: expected latency or throughput", settings.objective);
}

void check_lead_settings(const Settings& settings) {
  if (settings.standby.empty() && settings.witness.empty()) return;
  const std::string first = settings.standby.empty() ? "--witness " + settings.witness.front()
                                                     : "--standby " + settings.standby.front();
  if (!settings.cluster)
    fail(Errc::kInvalidArgument, "{}: names a machine that joined this one: add --cluster ({})", first,
         settings.local_nodes > 0 ? "nodes of --local-nodes end with this process"
                                  : "docs/cluster.md, a standby");
  if (settings.standby.empty())
    fail(Errc::kInvalidArgument, "{}: votes on who leads, and nobody else could: add --standby NAME", first);
  std::vector<std::string> names = settings.standby;
  names.insert(names.end(), settings.witness.begin(), settings.witness.end());
  for (auto it = names.begin(); it != names.end(); ++it) {
    if (it->empty())
      fail(Errc::kInvalidArgument, "--standby, --witness: expected the name of a node, found nothing");
    if (std::find(std::next(it), names.end(), *it) != names.end())
      fail(Errc::kInvalidArgument, "--standby, --witness: {} is named twice; a standby votes too", *it);
  }
  if (settings.standby.size() >= cluster::kSeatsMax || names.size() >= cluster::kVotersMax)
    fail(Errc::kInvalidArgument,
         "--standby, --witness: {} and {}; expected at most {} standbys, and {} in all",
         settings.standby.size(), settings.witness.size(), cluster::kSeatsMax - 1, cluster::kVotersMax - 1);
}

}  // namespace

void check_cluster_settings(const Settings& settings, bool is_cluster) {
  check_lead_settings(settings);
  if (!is_cluster && !settings.cluster && settings.local_nodes == 0) {
    if (!settings.plan.empty())
      fail(Errc::kInvalidArgument, "--plan {}: only a cluster has one: add --cluster or --local-nodes N",
           settings.plan);
    return;
  }
  const bool given = !settings.strategy.empty() &&
                     cluster::find_strategy(settings.strategy).nodes == cluster::NodeChoice::kGiven;
  if (given && settings.plan.empty())
    fail(Errc::kInvalidArgument,
         "--strategy {}: needs a file that says who runs what: --plan FILE (docs/planner.md has an example)",
         settings.strategy);
  const runtime::GroupChoice groups = runtime::parse_groups("--groups", settings.groups);
  if (groups.most > 1 && !settings.plan.empty())
    fail(Errc::kInvalidArgument, "--plan {} and --groups {} exclude each other", settings.plan,
         settings.groups);
  if (groups.most > 1 && !settings.strategy.empty()) {
    const cluster::PartitionStrategy& strategy = cluster::find_strategy(settings.strategy);
    const bool all = strategy.nodes == cluster::NodeChoice::kAll;
    if (&strategy != &cluster::default_strategy() && !(all && groups.always))
      fail(Errc::kInvalidArgument, "--groups {}: the strategy {} {}; expected {}", settings.groups,
           strategy.name, all ? "does not ask what is faster" : "makes no groups",
           all ? "--groups N" : "another --strategy");
  }
  if (!given && !settings.strategy.empty() && !settings.plan.empty())
    fail(Errc::kInvalidArgument, "--plan {} and --strategy {} exclude each other", settings.plan,
         settings.strategy);
  if (settings.cluster && settings.local_nodes > 0)
    fail(Errc::kInvalidArgument, "--cluster and --local-nodes exclude each other");
  if (settings.dead_seconds <= settings.suspect_seconds)
    fail(Errc::kInvalidArgument, "--dead-after {}: expected more than --suspect-after, which is {}",
         settings.dead_seconds, settings.suspect_seconds);
}

runtime::HostedModelOptions hosted_model(const Settings& settings, const ModelSpec& spec,
                                         const ModelOptions& options) {
  runtime::HostedModelOptions model;
  model.path = std::filesystem::absolute(spec.path);
  model.name = spec.name;
  for (const model::AdapterSpec& adapter : spec.adapters)
    model.adapters.push_back({std::filesystem::absolute(adapter.path), adapter.scale});
  model.rebalance = !settings.no_rebalance;
  if (!settings.strategy.empty()) model.placement.strategy = &cluster::find_strategy(settings.strategy);
  if (!settings.plan.empty()) model.placement.written = cluster::read_written_plan(settings.plan);
  model.placement.objective = objective_of(settings);
  model.placement.groups = runtime::parse_groups("--groups", settings.groups);
  model.placement.settings = stage_settings(spec, options);
  model.placement.settings.wire = std::string(runtime::find_row_format(settings.wire).name);
  model.placement.settings.kept_bytes =
      std::min(runtime::StageSettings::kKeptBytesMax, parse_bytes(settings.kept_rows).or_throw());
  return model;
}

runtime::ClusterHostOptions cluster_options(const Settings& settings, const std::vector<ModelSpec>& specs,
                                            const ModelOptions& options, Compute& compute) {
  runtime::ClusterHostOptions host;
  if (!settings.plan.empty() && specs.size() > 1)
    fail(Errc::kInvalidArgument, "--plan {}: has the pieces of one model; expected one -m, found {}",
         settings.plan, specs.size());
  for (const ModelSpec& spec : specs) host.models.push_back(hosted_model(settings, spec, options));
  if (!settings.memory.empty()) host.memory_bytes = parse_bytes(settings.memory).or_throw();
  host.health = {.suspect_after = std::chrono::seconds(settings.suspect_seconds),
                 .dead_after = std::chrono::seconds(settings.dead_seconds)};
  host.nodes_wanted = settings.nodes;
  host.nodes_wait = std::chrono::seconds(settings.nodes_seconds);
  host.standbys = settings.standby;
  host.witnesses = settings.witness;
  host.compute = &compute;
  return host;
}

}  // namespace butterfly::server
