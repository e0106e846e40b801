#include "runtime/nodes/local_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/cpu.h"
#include "base/error.h"
#include "base/free_memory.h"
#include "base/units.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"
#include "cluster/node/capability_file.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kStartMax = std::chrono::minutes(10);  // weights may be large
constexpr auto kTokenLife = std::chrono::hours(1);

std::string node_name(size_t number) { return fmt::format("node-{}", number); }

// Here it is known who will come.
void check_names(const cluster::WrittenPlan& plan, size_t nodes) {
  for (const auto& stage : plan.stages)
    for (const std::string& name : stage.nodes) {
      size_t number = 1;
      while (number <= nodes && node_name(number) != name) ++number;
      if (number > nodes)
        fail(Errc::kInvalidArgument, "{}:{}: node: expected {} to {}, found '{}'", plan.name, stage.line,
             node_name(1), node_name(nodes), name);
    }
}

void write_private(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot write", path.string());
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// The folder of the coordinator's node, with the cluster's authority; the token that lets `others` in is in
// `token_file`.
cluster::StateFolder found(const std::filesystem::path& state, const std::filesystem::path& token_file,
                           size_t others) {
  const cluster::StateFolder folder = cluster::StateFolder::make(state);
  const cluster::Credentials credentials =
      cluster::found_cluster(folder, "local", node_name(1), cluster::wall_now());
  if (others == 0) return folder;
  const cluster::JoinToken token =
      cluster::TokenBook(folder)
          .make(credentials.authority.sha256(), static_cast<int>(others), kTokenLife, cluster::wall_now())
          .or_throw();
  write_private(token_file, token.text() + "\n");
  return folder;
}

// Tells the cluster how a node ended. False: nobody wants it back.
bool report_end(ClusterHost& host, const LocalNodeEnd& end) {
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

}  // namespace

LocalCluster::LocalCluster(Options options)
    : options_(std::move(options)),
      threads_(options_.threads > 0 ? options_.threads
                                    : std::max<size_t>(1, default_thread_count() / options_.nodes)),
      nodes_({.restarts = options_.restarts, .program = {}}) {
  nodes_.bind_first(options_.nodes);
}

std::shared_ptr<ClusterHost> LocalCluster::make(ClusterHostOptions host) {
  LocalNodeStart node;
  node.token_file = folder_.path() / "token";
  node.capabilities_file = folder_.path() / "capabilities.json";
  for (const HostedModelOptions& model : host.models) {
    node.models.push_back(model.path);
    for (const model::AdapterSpec& adapter : model.adapters) node.models.push_back(adapter.path);
  }
  node.memory_bytes = free_memory_bytes() / options_.nodes;
  node.threads = threads_;

  host.state = found(folder_.path() / node_name(1), node.token_file, options_.nodes - 1).path();
  host.listen = "127.0.0.1:0";
  host.places = options_.places;
  // A cluster that only trains plans nothing by what was measured before.
  host.capabilities = host.models.empty()
                          ? measure_local_node(host.compute->take().pool(), options_.program)
                          : measure_local_node(host.compute->take().pool(),
                                               model::open_model(host.models.front().path), options_.program);
  write_private(node.capabilities_file, cluster::to_json(host.capabilities));
  // All take part, unless a strategy was asked for, or what is fastest: that is what it is for.
  for (HostedModelOptions& model : host.models) {
    GroupChoice& groups = model.placement.groups;
    if (model.placement.strategy == nullptr && (groups.most == 1 || groups.always))
      model.placement.strategy = &cluster::first_strategy(cluster::NodeChoice::kAll);
    // Members compute at the same time, and the planner takes nodes for machines: more than have CPUs of
    // their own would gain nothing.
    if (!groups.always)
      groups.most = std::min(groups.most, std::max<size_t>(1, allowed_cpus().size() / threads_));
    if (model.placement.written) check_names(*model.placement.written, options_.nodes);
    model.placement.unknown_link = kLocalLink;
  }
  host.memory_bytes = node.memory_bytes;
  host.nodes_wanted = options_.nodes;
  host.nodes_wait = kStartMax;
  host.measure_links = false;
  auto made = std::make_shared<ClusterHost>(std::move(host));
  start_nodes(made, node);
  return made;
}

void LocalCluster::start_nodes(const std::shared_ptr<ClusterHost>& host, const LocalNodeStart& node) {
  nodes_.on_end([weak = std::weak_ptr(host)](const LocalNodeEnd& end) {
    const auto there = weak.lock();
    return there != nullptr && report_end(*there, end);
  });
  for (size_t i = 1; i < options_.nodes; ++i) {
    LocalNodeStart one = node;
    one.name = node_name(i + 1);
    one.coordinator = host->address();
    one.state = folder_.path() / one.name;
    nodes_.start(one.name, options_.arguments(one), i, options_.nodes);
  }
}

}  // namespace butterfly::runtime
