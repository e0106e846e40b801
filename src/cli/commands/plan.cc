// `butterfly plan`: who would run what, before anything loads; also for models and machines one does not
// have.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/models/model_store.h"
#include "cli/nodes/plan_output.h"
#include "cluster/node/cluster_file.h"
#include "cluster/node/cpu_share.h"
#include "cluster/node/kernel_rates.h"
#include "cluster/node/this_node.h"
#include "cluster/partition/plan_file.h"
#include "cluster/picture/plan_picture.h"
#include "kernels/probe/machine_probe.h"
#include "runtime/planning/group_choice.h"
#include "runtime/planning/model_shape.h"

namespace butterfly::cli {
namespace {

struct PlanOptions {
  std::string model;
  std::string type = "q4_0";
  std::string vocabulary_type = "q6_k";
  std::string cluster;
  std::string strategy{cluster::default_strategy().name};
  std::string objective = "latency";
  std::string custom;
  std::string svg;
  std::string cache_type = "f16";
  double latency_limit_ms = 0;
  size_t generate = 0;
  size_t streams = 0;
  size_t batch = 0;
  std::string groups = "off";
  std::string out;
  size_t threads = 0;
  size_t depth = SIZE_MAX;
  uint64_t seed = 1;
  bool logits = false;
  bool json = false;
  runtime::PlanWorkload workload;
};

DType type_named(const char* flag, const std::string& name) {
  const auto type = dtype_by_name(name);
  if (!type) fail(Errc::kInvalidArgument, "{} {}: no such element type", flag, name);
  return *type;
}

// A file, a stored model, or the name of a published one.
model::ModelFile open_or_shape(const PlanOptions& options) {
  const runtime::NamedShape* shape = runtime::find_shape(options.model);
  if (shape != nullptr && !std::filesystem::exists(options.model))
    return runtime::shape_file(*shape, type_named("--type", options.type),
                               type_named("--vocab-type", options.vocabulary_type));
  try {
    return model::open_model(resolve_model(options.model));
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) throw;
    std::string names;
    for (const auto& row : runtime::named_shapes())
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    fail(Errc::kNotFound, "{}; or a shape: {}", error.what(), names);
  }
}

// This machine alone, by its own measurement. A tenth of the memory stays free for everything else.
cluster::ClusterSpec this_machine(const PlanOptions& options, const model::ModelFile& file) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "measuring this machine (no --cluster given) ...\n");
  ThreadPool pool(options.threads);
  kernels::MachineProbeOptions quick;
  quick.time_per_figure = std::chrono::milliseconds(60);
  const uint64_t ram = memory_limit_bytes();
  cluster::NodeSpec node = cluster::node_from_probe(kernels::probe_machine(pool, quick), ram, ram / 10);
  // The type that holds most of the weights.
  if (const auto type = dtype_by_name(file.type_shares().front().type))
    cluster::calibrate(node, cluster::measure_kernels(pool, *type), *type);
  // The figures so far are of the time in which threads run; a container's quota lets them run for a part of
  // it.
  const double share = cluster::measure_cpu_share(pool).share;
  cluster::apply_share(node, share);
  if (share < 1)
    fmt::print(stderr, "a quota on CPU time leaves {:.0f} % of {} thread{}\n", 100 * share, pool.size(),
               pool.size() == 1 ? "" : "s");
  return cluster::cluster_of(std::move(node));
}

runtime::PlanRequest request_for(const PlanOptions& options, const cluster::ClusterSpec& cluster) {
  runtime::PlanRequest request;
  request.workload = options.workload;
  request.workload.depth = options.depth;
  request.workload.return_logits = options.logits;
  const DTypeInfo& cache = dtype_info(type_named("--cache-type", options.cache_type));
  request.workload.kv_value_bytes = std::max<size_t>(1, cache.block_bytes / cache.block_values);
  const bool throughput = options.objective == "throughput";
  // Enough streams that every node could be busy.
  request.workload.streams = options.streams > 0 ? options.streams : throughput ? cluster.size() : 1;
  request.workload.batch = options.batch > 0 ? options.batch : 1;
  request.choose_batch = throughput && options.batch == 0;
  cluster::PlanOptions& plan = request.options;
  if (throughput) plan.objective = cluster::Objective::kThroughput;
  if (throughput && options.batch > 0)
    plan.batches_in_flight = (request.workload.streams + options.batch - 1) / options.batch;
  if (options.latency_limit_ms > 0) plan.latency_limit_s = options.latency_limit_ms / 1e3;
  if (options.latency_limit_ms > 0 && !throughput)
    fail(Errc::kInvalidArgument, "--latency-limit: goes with --objective throughput");
  if (options.generate > 0) plan.prefill_weight = 1 / static_cast<double>(options.generate);
  const runtime::GroupChoice groups = runtime::parse_groups("--groups", options.groups);
  plan.group_size_max = groups.most;
  if (groups.always) plan.group_size_wanted = groups.most;
  if (!options.out.empty()) plan.last_node = cluster.coordinator;
  plan.seed = options.seed;
  if (!options.custom.empty()) plan.custom = cluster::read_plan(options.custom, cluster);
  if (options.strategy != "all") {
    request.strategies = {options.custom.empty() ? &cluster::find_strategy(options.strategy)
                                                 : &cluster::first_strategy(cluster::NodeChoice::kGiven)};
  } else {
    request.strategies.clear();
    for (const auto& strategy : cluster::partition_strategies())
      if (strategy.nodes != cluster::NodeChoice::kGiven || !options.custom.empty())
        request.strategies.push_back(&strategy);
  }
  return request;
}

int plan(const PlanOptions& options) {
  const model::ModelFile file = open_or_shape(options);
  const cluster::ClusterSpec cluster =
      options.cluster.empty() ? this_machine(options, file) : cluster::read_cluster(options.cluster);
  const runtime::ModelPlan plan = runtime::plan_model(file, cluster, request_for(options, cluster));
  const cluster::PlannedChain* best = nullptr;
  for (const auto& outcome : plan.outcomes)
    if (best == nullptr && outcome.planned) best = outcome.planned.operator->();
  if (options.json) {
    fmt::print("{}\n", json_text(plan_json(plan), 2));
  } else {
    print_plan(plan);
  }
  if (best != nullptr && !options.out.empty()) {
    cluster::Plan served = best->plan;
    cluster::end_at(served, cluster.coordinator);
    write_text_file(options.out, cluster::plan_text(served, cluster));
    fmt::print(stderr, "wrote {}: butterfly serve --plan {}\n", options.out, options.out);
  }
  if (best != nullptr && !options.svg.empty()) {
    write_text_file(options.svg, cluster::plan_picture(plan.problem, *best));
    fmt::print(stderr, "wrote {}\n", options.svg);
  }
  if (best != nullptr) return kExitOk;
  fail(Errc::kOutOfMemory, "no plan: {}", plan.outcomes.front().planned.status().text());
}

}  // namespace

CommandBody setup_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  std::string shapes;
  for (const auto& row : runtime::named_shapes())
    shapes += (shapes.empty() ? "" : ", ") + std::string(row.name);
  add_option(app, "MODEL", options->model, "Model file, stored model, or a shape: " + shapes).required();
  add_option(app, "--cluster", options->cluster,
             "TOML file of nodes and links (default: measure this machine)")
      .type_name("FILE");
  add_option(app, "--strategy", options->strategy, cluster::strategy_names() + ", or all to compare")
      .show_default();
  add_option(app, "--objective", options->objective, "latency of one stream, or throughput of many")
      .one_of({"latency", "throughput"})
      .show_default();
  add_option(app, "--latency-limit", options->latency_limit_ms, "With throughput: most ms per token")
      .type_name("MS");
  add_option(app, "-c,--context", options->workload.context,
             "Positions of each stream (default: the model's, up to 4096)");
  add_option(app, "--depth", options->depth,
             "Positions in the cache of the step that is timed (default: half)")
      .type_name("N");
  add_option(app, "--streams", options->streams,
             "Streams at once (default: 1; with throughput: one per node)");
  add_option(app, "--batch", options->batch, "Streams in one step (default: 1; with throughput: the best)");
  add_option(app, "--prompt", options->workload.prompt, "Tokens of a prompt").show_default();
  add_option(app, "--generate", options->generate,
             "Tokens per prompt: plan for both (default: generation alone)");
  add_option(app, "--groups", options->groups,
             "Nodes that share each layer (tensor parallel): off, auto (where it pays) or how many")
      .show_default();
  add_option(app, "--plan", options->custom, "TOML file of [[stage]]s: what it would do").type_name("FILE");
  add_option(app, "--type", options->type, "Element type of a shape's matrices").show_default();
  add_option(app, "--vocab-type", options->vocabulary_type, "Of a shape's embedding and head").show_default();
  add_option(app, "--cache-type", options->cache_type, "Key/value cache: f16, f32 or q8_0").show_default();
  add_flag(app, "--logits", options->logits, "The last node returns all logits, not a token");
  add_option(app, "--out", options->out, "Also a file for 'serve --plan': the coordinator's node has the end")
      .type_name("FILE");
  add_option(app, "--svg", options->svg, "Also a picture of who runs what").type_name("FILE");
  add_option(app, "-s,--seed", options->seed, "Of strategies that draw").show_default();
  add_threads_flag(app, options->threads);
  add_json_flag(app, options->json);
  return [options] { return plan(*options); };
}

}  // namespace butterfly::cli
