#include "cli/nodes/cluster_run.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_serve.h"
#include "cli/nodes/node_setup.h"

namespace butterfly::cli {
namespace {

constexpr Duration kServingMax = std::chrono::minutes(10);  // weights may be large

std::shared_ptr<runtime::LocalCluster> local_cluster(const RunNodes& nodes, size_t threads) {
  return std::make_shared<runtime::LocalCluster>(
      runtime::LocalCluster::Options{.nodes = nodes.local,
                                     .threads = threads,
                                     .restarts = {},
                                     .program = program_text(),
                                     .places = weight_places("", {}),
                                     .arguments = join_arguments});
}

}  // namespace

void RunNodes::add_to(CLI::App& app) {
  const char* group = "Cluster";
  add_option(app, "--local-nodes", local, "On N processes of this machine: a cluster to try")
      .type_name("N")
      .group(group);
  add_option(app, "--groups", groups, "Nodes that share each layer: off, auto (where it pays) or how many")
      .type_name("WHAT")
      .group(group);
}

bool RunNodes::wanted() const {
  constexpr size_t kLocalMax = 64;
  const bool shared = runtime::parse_groups("--groups", groups).most > 1;
  if (shared && local < 2)
    fail(Errc::kInvalidArgument, "--groups {}: one process shares with nobody: add --local-nodes N", groups);
  if (local > kLocalMax)
    fail(Errc::kInvalidArgument, "--local-nodes {}: expected up to {}", local, kLocalMax);
  return local > 0;
}

ClusterRun::ClusterRun(const RunNodes& nodes, size_t threads)
    : nodes_(nodes), start_(local_cluster(nodes, threads)), compute_(start_->threads()) {}

ClusterRun::~ClusterRun() {
  if (engine_ != nullptr) engine_->stop();
  if (host_ != nullptr) host_->stop();
}

runtime::Engine& ClusterRun::serve(const std::filesystem::path& path, const runtime::LoadedModel& model,
                                   const std::vector<model::AdapterSpec>& adapters,
                                   const runtime::LocalEngineOptions& options, bool quiet) {
  runtime::HostedModelOptions hosted;
  hosted.path = std::filesystem::absolute(path);
  hosted.name = path.stem().string();
  for (const model::AdapterSpec& adapter : adapters)
    hosted.adapters.push_back({std::filesystem::absolute(adapter.path), adapter.scale});
  hosted.placement.groups = runtime::parse_groups("--groups", nodes_.groups);
  hosted.placement.settings = {.context = options.engine.scheduler.context,
                               .positions = options.layers.positions,
                               .sequences = options.engine.scheduler.running_max,
                               .rows_max = options.layers.rows_max,
                               .kv_type = options.layers.kv_type};
  runtime::ClusterHostOptions host;
  host.version = build_info().version;
  host.compute = &compute_;
  host.models.push_back(hosted);
  host_ = start_->make(std::move(host));
  if (!quiet)
    host_->subscribe([](const cluster::EventStatus* event) {
      if (event != nullptr && event->kind == "planned") fmt::print(stderr, "{}\n", event->text);
      return true;
    });
  host_->start();
  engine_ = host_->make_engine(hosted.name, model.tokenizer.get(), options.engine);
  host_->wait_until_serving(kServingMax, [] { return interrupted(); }).or_throw();
  return *engine_;
}

}  // namespace butterfly::cli
