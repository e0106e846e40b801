// `butterfly token new|list|revoke`: who may join.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "cli/nodes/cluster_access.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TokenOptions {
  std::string action, id, state, address, life = "1h";
  size_t uses = 1;
  bool json = false;
};

cluster::StateFolder authority_folder(const TokenOptions& options) {
  cluster::StateFolder folder = open_state(options.state);
  if (!cluster::Authority::is_here(folder))
    fail(Errc::kNotFound, "{}: tokens are made on the machine where the cluster was made ('butterfly init')",
         folder.path().string());
  return folder;
}

int make_token(const TokenOptions& options) {
  const cluster::StateFolder folder = authority_folder(options);
  const std::chrono::seconds life = parse_life(options.life);
  const cluster::JoinToken token = cluster::TokenBook(folder)
                                       .make(cluster::Authority::load(folder).certificate().sha256(),
                                             static_cast<int>(options.uses), life, cluster::wall_now())
                                       .or_throw();
  const std::string line = join_line(join_address(options.address), token.text());
  if (options.json) {
    const Json json = {
        {"token", token.text()}, {"uses", options.uses}, {"life_s", life.count()}, {"join", line}};
    fmt::print("{}\n", json_text(json, 2));
    return kExitOk;
  }
  fmt::print("{}\n", line);
  fmt::print(stderr, "Good for {} and {}.\n",
             options.uses == 1 ? "one node" : fmt::format("{} nodes", options.uses), life_left(life));
  return kExitOk;
}

int list_tokens(const TokenOptions& options) {
  const cluster::WallTime now = cluster::wall_now();
  const auto tokens = cluster::TokenBook(authority_folder(options)).list(now);
  if (options.json) {
    Json rows = Json::array();
    for (const cluster::TokenInfo& token : tokens)
      rows.push_back({{"id", token.id},
                      {"created_unix_s", token.created.time_since_epoch().count()},
                      {"expires_unix_s", token.expires.time_since_epoch().count()},
                      {"uses", token.uses},
                      {"uses_left", token.uses_left}});
    fmt::print("{}\n", json_text(rows, 2));
    return kExitOk;
  }
  if (tokens.empty()) {
    fmt::print(stderr, "no tokens; 'butterfly token new' makes one\n");
    return kExitOk;
  }
  fmt::print("{:<16}  {:>9}  {}\n", "ID", "USES LEFT", "ENDS IN");
  for (const cluster::TokenInfo& token : tokens)
    fmt::print("{:<16}  {:>9}  {}\n", token.id, fmt::format("{}/{}", token.uses_left, token.uses),
               life_left(token.expires - now));
  return kExitOk;
}

int run(const TokenOptions& options) {
  if (options.action == "new") return make_token(options);
  if (options.action == "list") return list_tokens(options);
  if (options.id.empty())
    fail(Errc::kInvalidArgument, "token revoke: expected the id of a token ('butterfly token list')");
  cluster::TokenBook(authority_folder(options)).revoke(options.id).or_throw();
  fmt::print(stderr, "revoked\n");
  return kExitOk;
}

}  // namespace

CommandBody setup_token(CLI::App& app) {
  auto options = std::make_shared<TokenOptions>();
  add_option(app, "ACTION", options->action, "new, list or revoke")
      .one_of({"new", "list", "revoke"})
      .required();
  add_option(app, "ID", options->id, "Of the token to revoke, or the token itself");
  add_option(app, "--uses", options->uses, "Nodes that may join with it")
      .range(1, cluster::kTokenUsesMax)
      .type_name("N")
      .show_default();
  add_option(app, "--ttl", options->life, "How long it is good: 90s, 15m, 2h, 7d")
      .type_name("TIME")
      .show_default();
  add_option(app, "--address", options->address,
             "Where others reach this machine (default: its first address)")
      .type_name("HOST[:PORT]");
  add_state_flag(app, options->state);
  add_json_flag(app, options->json);
  return [options] { return run(*options); };
}

}  // namespace butterfly::cli
