// `butterfly init`: a cluster's authority, this machine's key and certificate, an API key, and the line that
// the next machine needs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/node_setup.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"
#include "server/context/access.h"

namespace butterfly::cli {
namespace {

constexpr const char* kApiKeysFile = "api-keys";

struct InitOptions {
  std::string state, cluster = "butterfly", name, address;
  bool json = false;
};

int init(const InitOptions& options) {
  const std::string name = options.name.empty() ? default_node_name() : options.name;
  if (const std::string why = cluster::why_not_node_name(name); !why.empty())
    fail(Errc::kInvalidArgument, "--name {}: {}", name, why);
  const cluster::StateFolder folder = cluster::StateFolder::make(state_path(options.state));
  const cluster::WallTime now = cluster::wall_now();
  const cluster::Credentials credentials = cluster::found_cluster(folder, options.cluster, name, now);
  const std::filesystem::path keys = folder.path() / kApiKeysFile;
  const std::string api_key = server::make_key_in(keys);
  const cluster::JoinToken token =
      cluster::TokenBook(folder).make(credentials.authority.sha256(), 1, cluster::kTokenLife, now).or_throw();
  const std::string line = join_line(join_address(options.address), token.text());
  if (options.json) {
    const nlohmann::ordered_json json = {{"cluster", options.cluster},
                                         {"node", name},
                                         {"key", credentials.id().key},
                                         {"state", folder.path().string()},
                                         {"ca_sha256", credentials.authority.sha256()},
                                         {"api_key", api_key},
                                         {"api_key_file", keys.string()},
                                         {"token", token.text()},
                                         {"join", line}};
    fmt::print("{}\n", json_text(json, 2));
    return kExitOk;
  }
  fmt::print(stderr,
             "The cluster '{}' is made; this machine is its node '{}'. Keys are in {}, for your eyes only.\n"
             "API key, shown only now (serve with --api-key-file {}):\n  {}\n"
             "On the next machine, within an hour (more: butterfly token new):\n",
             options.cluster, name, folder.path().string(), keys.string(), api_key);
  fmt::print("{}\n", line);
  return kExitOk;
}

}  // namespace

CommandBody setup_init(CLI::App& app) {
  auto options = std::make_shared<InitOptions>();
  add_state_flag(app, options->state);
  add_option(app, "--cluster", options->cluster, "What the cluster is called")
      .type_name("NAME")
      .show_default();
  add_option(app, "--name", options->name, "What this machine is called (default: its host name)")
      .type_name("NAME");
  add_option(app, "--address", options->address, "Where others reach it (default: its first address)")
      .type_name("HOST[:PORT]");
  add_json_flag(app, options->json);
  return [options] { return init(*options); };
}

}  // namespace butterfly::cli
