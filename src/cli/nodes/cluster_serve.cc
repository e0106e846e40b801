#include "cli/nodes/cluster_serve.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "base/cpu.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/console/interrupt.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"
#include "cluster/node/addresses.h"
#include "cluster/node/capability_file.h"
#include "cluster/node/free_memory.h"
#include "runtime/nodes/cluster_host.h"
#include "runtime/nodes/local_nodes.h"
#include "server/model_specs.h"
#include "server/server_context.h"

namespace butterfly::cli {
namespace {

constexpr Duration kLocalStartMax = std::chrono::minutes(10);  // weights may be large

cluster::Objective objective_of(const server::Settings& settings) {
  if (settings.objective == "latency") return cluster::Objective::kLatency;
  if (settings.objective == "throughput") return cluster::Objective::kThroughput;
  fail(Errc::kInvalidArgument, "--plan-for {}: expected latency or throughput", settings.objective);
}

runtime::ClusterHostOptions host_options(const server::ModelSpec& spec, server::ServerContext& context) {
  const server::Settings& settings = context.settings;
  runtime::ClusterHostOptions host;
  host.version = context.version;
  host.model = std::filesystem::absolute(spec.path);
  host.model_name = spec.name;
  if (!settings.strategy.empty()) host.placement.strategy = &cluster::find_strategy(settings.strategy);
  host.placement.objective = objective_of(settings);
  host.placement.settings = server::stage_settings(spec, server::model_options(settings));
  host.placement.settings.wire = std::string(runtime::find_row_format(settings.wire).name);
  host.places = weight_places("", {});
  host.pool = context.pool.get();
  host.turn = &context.turn;
  return host;
}

std::shared_ptr<runtime::ClusterHost> make_cluster(const server::ModelSpec& spec,
                                                   server::ServerContext& context) {
  const server::Settings& settings = context.settings;
  runtime::ClusterHostOptions host = host_options(spec, context);
  const cluster::StateFolder folder = open_state(settings.state);
  if (!cluster::Authority::is_here(folder))
    fail(Errc::kNotFound, "{}: a cluster is served from the machine where it was made ('butterfly init')",
         folder.path().string());
  host.state = folder.path();
  host.listen = settings.cluster_listen.empty() ? fmt::format("0.0.0.0:{}", cluster::kClusterPort)
                                                : cluster::with_port(settings.cluster_listen);
  const char* measured = std::getenv("BUTTERFLY_CAPABILITIES");  // as join's hidden flag
  host.capabilities =
      node_capabilities(measured == nullptr ? "" : measured, folder, host.places.cache, *context.pool);
  host.discoverable = true;
  if (!settings.memory.empty()) host.memory_bytes = parse_bytes(settings.memory).or_throw();
  host.nodes_wanted = settings.nodes;
  host.nodes_wait = std::chrono::seconds(settings.nodes_seconds);
  return std::make_shared<runtime::ClusterHost>(std::move(host));
}

// Keys for one run, and the processes that have them.
struct LocalCluster {
  explicit LocalCluster(const server::Settings& settings)
      : nodes({.restarts = {.in_a_row_max = settings.local_restarts}}) {}
  runtime::PrivateFolder folder;
  runtime::LocalNodes nodes;
};

// Tells the cluster how a node ended. False: nobody wants it back.
bool report_end(runtime::ClusterHost& host, const runtime::LocalNodeEnd& end) {
  for (const cluster::NodeStatus& node : host.coordinator().status(0, 0).nodes)
    if (node.name == end.name && node.state == "removed") return false;
  std::string what_follows = "it is not started again: the others go on";
  if (end.again)
    what_follows = fmt::format("it is started again in {}", format_duration(*end.again));
  else if (end.restarts > 0)
    what_follows = fmt::format("that was after {} restart{} in a row, so {}", end.restarts,
                               end.restarts == 1 ? "" : "s", what_follows);
  host.coordinator().process_ended(end.name, end.how, what_follows, !end.again);
  return true;
}

std::string node_name(size_t number) { return fmt::format("node-{}", number); }

std::vector<std::string> node_arguments(const LocalCluster& local, const runtime::ClusterHost& host,
                                        size_t index, const server::Settings& settings,
                                        const std::filesystem::path& model, uint64_t memory_bytes) {
  const std::filesystem::path& folder = local.folder.path();
  const std::string name = node_name(index);
  return {"join",           host.address(),
          "--token-file",   (folder / "token").string(),
          "--state",        (folder / name).string(),
          "--name",         name,
          "--threads",      std::to_string(settings.threads),
          "--memory",       std::to_string(memory_bytes),
          "--model",        model.string(),
          "--capabilities", (folder / "capabilities.json").string(),
          "--quiet"};
}

void write_private(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot write", path.string());
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::shared_ptr<runtime::ClusterHost> make_local_cluster(const std::shared_ptr<LocalCluster>& local,
                                                         const server::ModelSpec& spec,
                                                         server::ServerContext& context) {
  const server::Settings& settings = context.settings;
  const std::filesystem::path& private_folder = local->folder.path();
  runtime::ClusterHostOptions host = host_options(spec, context);
  const cluster::StateFolder folder = cluster::StateFolder::make(private_folder / node_name(1));
  const cluster::Credentials credentials =
      cluster::found_cluster(folder, "local", node_name(1), cluster::wall_now());
  const size_t others = settings.local_nodes - 1;
  if (others > 0) {
    const cluster::JoinToken token = cluster::TokenBook(folder)
                                         .make(credentials.authority.sha256(), static_cast<int>(others),
                                               std::chrono::hours(1), cluster::wall_now())
                                         .or_throw();
    write_private(private_folder / "token", token.text() + "\n");
  }
  host.state = folder.path();
  host.listen = "127.0.0.1:0";
  host.capabilities =
      runtime::measure_local_node(*context.pool, model::open_model(host.model), program_text());
  write_private(private_folder / "capabilities.json", cluster::to_json(host.capabilities));
  if (settings.strategy.empty())
    host.placement.strategy = &cluster::first_strategy(cluster::NodeChoice::kAll);  // that is what it is for
  host.memory_bytes = cluster::free_memory_bytes() / settings.local_nodes;
  host.nodes_wanted = settings.local_nodes;
  host.nodes_wait = kLocalStartMax;
  host.measure_links = false;
  host.placement.unknown_link = runtime::kLocalLink;
  const std::filesystem::path model = host.model;
  const uint64_t memory_bytes = host.memory_bytes;
  auto made = std::make_shared<runtime::ClusterHost>(std::move(host));
  local->nodes.on_end([weak = std::weak_ptr(made)](const runtime::LocalNodeEnd& end) {
    const auto there = weak.lock();
    return there != nullptr && report_end(*there, end);
  });
  for (size_t i = 0; i < others; ++i)
    local->nodes.start(node_name(i + 2), node_arguments(*local, *made, i + 2, settings, model, memory_bytes),
                       i + 1, settings.local_nodes);
  return made;
}

}  // namespace

std::shared_ptr<void> prepare_cluster(server::ServerOptions& options) {
  server::Settings& settings = options.settings;
  if (!settings.cluster && settings.local_nodes == 0) return nullptr;
  if (settings.cluster && settings.local_nodes > 0)
    fail(Errc::kInvalidArgument, "--cluster and --local-nodes exclude each other");
  if (!settings.lora.empty())
    fail(Errc::kUnsupported,
         "--lora: a cluster serves no adapters, since its nodes get their layers from one model file and "
         "nothing "
         "of an adapter's; serve them on one machine, without --{}",
         settings.cluster ? "cluster" : "local-nodes");
  if (settings.cluster) {
    options.make_cluster = make_cluster;
    return nullptr;
  }
  if (settings.threads == 0)
    settings.threads = std::max<size_t>(1, default_thread_count() / settings.local_nodes);
  const auto local = std::make_shared<LocalCluster>(settings);
  local->nodes.bind_first(settings.local_nodes);
  options.make_cluster = [local](const server::ModelSpec& spec, server::ServerContext& context) {
    return make_local_cluster(local, spec, context);
  };
  return local;
}

}  // namespace butterfly::cli
