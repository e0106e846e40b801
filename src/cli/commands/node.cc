// `butterfly node list|remove|drain|resume`: who belongs to the cluster, and who works for it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/nodes/cluster_access.h"
#include "cluster/identity/roster.h"
#include "server/management_client.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

struct NodeOptions {
  std::string action, node, state;
  CoordinatorChoice choice;
  bool json = false;
  size_t wait_seconds = 300;
};

constexpr auto kDrainLook = std::chrono::milliseconds(100);

// Members as the running coordinator sees them, and those who have a certificate but are not there.
Json rows_of(const NodeOptions& options) {
  Json rows = Json::array();
  std::set<std::string> seen;
  if (const auto socket = options.choice.find()) {
    for (const cluster::NodeStatus& node : ask_status(*socket).nodes) {
      seen.insert(node.key);
      rows.push_back(
          {{"name", node.name}, {"key", node.key}, {"state", node.state}, {"address", node.address}});
    }
  }
  std::error_code none;
  if (!std::filesystem::exists(state_path(options.state), none)) return rows;
  const auto roster = cluster::Roster(open_state(options.state)).rows();
  // The coordinator that runs may be of another cluster than the folder: one of processes on this machine.
  const bool same = seen.empty() || std::any_of(roster.begin(), roster.end(), [&](const auto& row) {
                      return row.node.key == rows[0]["key"].get<std::string>();
                    });
  if (same)
    for (const cluster::RosterRow& row : roster)
      if (!seen.contains(row.node.key))
        rows.push_back({{"name", row.node.name},
                        {"key", row.node.key},
                        {"state", row.removed ? "removed" : "not connected"},
                        {"address", ""}});
  return rows;
}

int list_nodes(const NodeOptions& options) {
  const Json rows = rows_of(options);
  if (options.json) {
    fmt::print("{}\n", json_text(rows, 2));
    return kExitOk;
  }
  if (rows.empty()) {
    fmt::print(stderr, "no nodes: no cluster is made here and no coordinator runs\n");
    return kExitOk;
  }
  size_t width = 4;
  for (const Json& row : rows) width = std::max(width, row["name"].get<std::string>().size());
  fmt::print("{:<{}}  {:<13}  {:<21}  {}\n", "NAME", width, "STATE", "ADDRESS", "KEY");
  for (const Json& row : rows)
    fmt::print("{:<{}}  {:<13}  {:<21}  {:.16}\n", row["name"].get<std::string>(), width,
               row["state"].get<std::string>(), row["address"].get<std::string>(),
               row["key"].get<std::string>());
  return kExitOk;
}

void need_node(const NodeOptions& options) {
  if (options.node.empty())
    fail(Errc::kInvalidArgument, "node {}: expected the name or key of a node", options.action);
}

void ask_coordinator(const std::filesystem::path& socket, const char* path, const std::string& node) {
  const server::ManagementAnswer answer =
      server::ask_server(socket, "POST", path, json_text(Json{{"node", node}}));
  if (answer.status == 200) return;
  const Json body = json_of_text_or_none<Json>(answer.body);
  const bool words = body.is_object() && body.contains("error") && body["error"].is_object();
  fail(answer.status == 404 ? Errc::kNotFound : Errc::kInvalidArgument, "{}",
       words ? body["error"].value("message", "") : "the coordinator refused");
}

std::filesystem::path running_coordinator(const NodeOptions& options) {
  const auto socket = options.choice.find();
  if (!socket) fail(Errc::kNotFound, "no coordinator runs here: 'butterfly serve --cluster' starts one");
  return *socket;
}

// Returns when the node has no part in anything any more.
int drain_node(const NodeOptions& options) {
  need_node(options);
  const std::filesystem::path socket = running_coordinator(options);
  ask_coordinator(socket, cluster::kDrainPath, options.node);
  const Deadline deadline(SystemClock::instance(), std::chrono::seconds(options.wait_seconds));
  while (true) {
    for (const cluster::NodeStatus& node : ask_status(socket).nodes) {
      if (node.name != options.node && node.key != options.node) continue;
      if (node.drain == "done" || node.state == "left" || node.state == "dead") {
        fmt::print(
            stderr,
            "{} is drained: it has no part in what is served ('butterfly node resume {}' uses it again)\n",
            node.name, node.name);
        return kExitOk;
      }
      if (!node.why_not_drained.empty())
        fail(Errc::kOutOfMemory, "{} keeps its part: there is no plan without it: {}", node.name,
             node.why_not_drained);
    }
    if (deadline.expired())
      fail(Errc::kTimeout, "{} still has its part after {} s; it is moved as soon as that can be",
           options.node, options.wait_seconds);
    throw_if_interrupted();
    std::this_thread::sleep_for(kDrainLook);
  }
}

int resume_node(const NodeOptions& options) {
  need_node(options);
  ask_coordinator(running_coordinator(options), cluster::kResumePath, options.node);
  fmt::print(stderr, "{} may be used again\n", options.node);
  return kExitOk;
}

int remove_node(const NodeOptions& options) {
  need_node(options);
  const auto socket = options.choice.find();
  if (!socket) {
    const cluster::NodeId removed =
        cluster::Roster(open_state(options.state)).remove(options.node).or_throw();
    fmt::print(stderr, "removed {}: it will not be let in again\n", removed.name);
    return kExitOk;
  }
  ask_coordinator(*socket, cluster::kRemovePath, options.node);
  fmt::print(stderr, "removed {}: its links are closed\n", options.node);
  return kExitOk;
}

}  // namespace

CommandBody setup_node(CLI::App& app) {
  auto options = std::make_shared<NodeOptions>();
  add_option(app, "ACTION", options->action, "list, remove, drain (move its layers to others) or resume")
      .one_of({"list", "remove", "drain", "resume"})
      .required();
  add_option(app, "NODE", options->node, "Name or key of the node");
  add_option(app, "--wait", options->wait_seconds, "Seconds that drain waits until the layers are moved")
      .type_name("SECONDS")
      .show_default();
  add_state_flag(app, options->state);
  options->choice.add_to(app);
  add_json_flag(app, options->json);
  return [options] {
    if (options->action == "drain") return drain_node(*options);
    if (options->action == "resume") return resume_node(*options);
    return options->action == "list" ? list_nodes(*options) : remove_node(*options);
  };
}

}  // namespace butterfly::cli
