#include "cli/nodes/cluster_serve.h"

#include <cstdlib>

#include "base/error.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/authority.h"
#include "runtime/nodes/local_cluster.h"
#include "server/cluster_options.h"

namespace butterfly::cli {

std::shared_ptr<runtime::ClusterStart> joined_cluster(const std::string& state, const std::string& listen,
                                                      bool discoverable,
                                                      std::shared_ptr<runtime::LeadShell> lead) {
  const cluster::StateFolder folder = open_state(state);
  if (lead == nullptr && !cluster::Authority::is_here(folder))
    fail(Errc::kNotFound, "{}: a cluster is led from the machine where it was made ('butterfly init')",
         folder.path().string());
  const char* measured = std::getenv("BUTTERFLY_CAPABILITIES");  // as join's hidden flag
  return std::make_shared<runtime::JoinedCluster>(
      runtime::JoinedCluster::Options{.state = folder.path(),
                                      .listen = listen,
                                      .places = weight_places("", {}),
                                      .capabilities = capability_source(measured == nullptr ? "" : measured),
                                      .discoverable = discoverable,
                                      .lead = std::move(lead)});
}

// `butterfly join` as the process of a local node.
std::vector<std::string> join_arguments(const runtime::LocalNodeStart& node) {
  std::vector<std::string> words = {"join",           node.coordinator,
                                    "--token-file",   node.token_file.string(),
                                    "--state",        node.state.string(),
                                    "--name",         node.name,
                                    "--threads",      std::to_string(node.threads),
                                    "--memory",       std::to_string(node.memory_bytes),
                                    "--capabilities", node.capabilities_file.string(),
                                    "--quiet"};
  for (const std::filesystem::path& model : node.models) {
    words.push_back("--model");
    words.push_back(model.string());
  }
  return words;
}

std::shared_ptr<runtime::ClusterStart> cluster_start(server::Settings& settings,
                                                     std::shared_ptr<runtime::LeadShell> lead) {
  server::check_cluster_settings(settings);
  if (settings.cluster)
    return joined_cluster(settings.state, settings.cluster_listen, !settings.no_discovery, std::move(lead));
  if (settings.local_nodes == 0) return nullptr;
  const auto local = std::make_shared<runtime::LocalCluster>(
      runtime::LocalCluster::Options{.nodes = settings.local_nodes,
                                     .threads = settings.threads,
                                     .restarts = {.in_a_row_max = settings.local_restarts},
                                     .program = program_text(),
                                     .places = weight_places("", {}),
                                     .arguments = join_arguments});
  settings.threads = local->threads();
  return local;
}

}  // namespace butterfly::cli
