// `butterfly node list|remove`: who belongs to the cluster.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
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
};

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

int remove_node(const NodeOptions& options) {
  if (options.node.empty()) fail(Errc::kInvalidArgument, "node remove: expected the name or key of a node");
  const auto socket = options.choice.find();
  if (!socket) {
    const cluster::NodeId removed =
        cluster::Roster(open_state(options.state)).remove(options.node).or_throw();
    fmt::print(stderr, "removed {}: it will not be let in again\n", removed.name);
    return kExitOk;
  }
  const server::ManagementAnswer answer =
      server::ask_server(*socket, "POST", cluster::kRemovePath, json_text(Json{{"node", options.node}}));
  if (answer.status != 200) {
    const Json body = json_of_text_or_none<Json>(answer.body);
    const bool words = body.is_object() && body.contains("error") && body["error"].is_object();
    fail(answer.status == 404 ? Errc::kNotFound : Errc::kInvalidArgument, "{}",
         words ? body["error"].value("message", "") : "the coordinator refused");
  }
  fmt::print(stderr, "removed {}: its links are closed\n", options.node);
  return kExitOk;
}

}  // namespace

CommandBody setup_node(CLI::App& app) {
  auto options = std::make_shared<NodeOptions>();
  add_option(app, "ACTION", options->action, "list or remove").one_of({"list", "remove"}).required();
  add_option(app, "NODE", options->node, "Name or key of the node to remove");
  add_state_flag(app, options->state);
  options->choice.add_to(app);
  add_json_flag(app, options->json);
  return [options] { return options->action == "list" ? list_nodes(*options) : remove_node(*options); };
}

}  // namespace butterfly::cli
