// `butterfly join`: this machine becomes a node of a cluster and works for it until it is told to end.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/terminal.h"
#include "cli/console/version.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/firewall.h"
#include "cli/nodes/node_setup.h"
#include "cli/nodes/node_view.h"
#include "cluster/enrol/join.h"
#include "cluster/node/addresses.h"
#include "cluster/node/discovery.h"
#include "runtime/nodes/cluster_node.h"

namespace butterfly::cli {
namespace {

constexpr Duration kJoinMax = std::chrono::seconds(20);
constexpr Duration kThereMax = std::chrono::minutes(2);  // for the cluster to listen
constexpr int kTriesMin = 5;  // also when that time is over: a machine may have stood still meanwhile
constexpr Duration kAgain = std::chrono::milliseconds(300);
constexpr Duration kRetireLook = std::chrono::milliseconds(20);
constexpr Duration kRetireQuiet = std::chrono::seconds(1);
constexpr Duration kDiscoverTime = std::chrono::milliseconds(1500);

struct JoinOptions {
  std::string address, token, token_file, name, state, listen, advertise, memory, fetch_rate, cache,
      capabilities;
  std::vector<std::string> models;
  size_t threads = 0;
  size_t drain_seconds = 60;
  bool enrol_only = false, quiet = false;
};

std::string first_line(std::istream& in) {
  std::string line;
  std::getline(in, line);
  const size_t end = line.find_last_not_of(" \t\r");
  return end == std::string::npos ? std::string() : line.substr(0, end + 1);
}

std::string token_text(const JoinOptions& options) {
  if (!options.token.empty()) return options.token;
  if (!options.token_file.empty()) {
    if (options.token_file == "-") return first_line(std::cin);
    std::ifstream in(options.token_file);
    if (!in) fail(Errc::kNotFound, "{}: cannot read the token", options.token_file);
    return first_line(in);
  }
  if (!is_terminal(fileno(stdin)))
    fail(Errc::kInvalidArgument,
         "joining needs a token: --token bf1-..., --token-file FILE, or '-' for stdin");
  fmt::print(stderr, "Token ('butterfly token new' on the cluster's first machine makes one): ");
  return first_line(std::cin);
}

// Where to ask: as told, or whoever answers on the local network. Only the token's hash says which cluster is
// the right one.
std::vector<std::string> candidates(const JoinOptions& options) {
  if (!options.address.empty()) return {cluster::with_port(options.address)};
  std::vector<std::string> addresses;
  for (const cluster::FoundCluster& found : cluster::discover(kDiscoverTime).or_throw()) {
    fmt::print(stderr, "Found cluster '{}' at {}\n", found.cluster, found.address);
    addresses.push_back(found.address);
  }
  if (addresses.empty())
    fail(Errc::kNotFound, "no cluster answers on the local network: butterfly join HOST:PORT --token ...");
  return addresses;
}

// The line may be pasted before the first machine is ready: it measures itself at its first start. One that
// is too busy to answer in time is asked again, too; the token is spent on this key, so that does no harm.
cluster::Credentials join_when_there(const cluster::StateFolder& folder, const std::string& address,
                                     const cluster::JoinToken& token, std::string name, bool may_rename) {
  const Deadline deadline(SystemClock::instance(), kThereMax);
  for (int tries = 1;; ++tries) {
    try {
      return cluster::join_cluster(folder, address, token, name, kJoinMax);
    } catch (const Error& error) {
      // Machines out of one box have one host name.
      if (may_rename &&
          std::string_view(error.what()).find("another node is called") != std::string_view::npos) {
        name = fmt::format("{:.50}-{}", name, random_hex(4));
        may_rename = false;
        continue;
      }
      const bool may_come = error.code() == Errc::kPeerLost || error.code() == Errc::kTimeout;
      if (!may_come || (deadline.expired() && tries >= kTriesMin) || end_asked_for()) throw;
      if (tries == 1) fmt::print(stderr, "{}; waiting for 'butterfly serve --cluster' there\n", error.what());
    }
    SystemClock::instance().sleep_for(kAgain);
  }
}

// The node's certificate, got now or before. The line that was pasted once may be pasted again. Returns the
// address of the cluster; empty: as before.
std::string enrol(const cluster::StateFolder& folder, const JoinOptions& options) {
  if (cluster::has_credentials(folder)) {
    const std::string address = options.address.empty() ? "" : cluster::with_port(options.address);
    if (options.token.empty() && options.token_file.empty()) return address;
    const cluster::JoinToken token = cluster::JoinToken::parse(token_text(options)).or_throw();
    if (token.authority_hash == cluster::load_credentials(folder).authority.sha256()) return address;
    fail(Errc::kInvalidArgument, "{}: this machine belongs to another cluster; use another --state folder",
         folder.path().string());
  }
  const cluster::JoinToken token = cluster::JoinToken::parse(token_text(options)).or_throw();
  const std::string name = options.name.empty() ? default_node_name() : options.name;
  const std::vector<std::string> addresses = candidates(options);
  for (size_t i = 0; i < addresses.size(); ++i) {
    try {
      const cluster::Credentials credentials =
          join_when_there(folder, addresses[i], token, name, options.name.empty());
      if (!options.quiet)
        fmt::print(stderr, "Joined as node '{}'; keys are in {}\n", credentials.id().name,
                   folder.path().string());
      return addresses[i];
    } catch (const Error& error) {
      if (i + 1 == addresses.size()) throw;
      log_info("{}: {}", addresses[i], error.what());
    }
  }
  return {};
}

// Kept for the next start.
std::string coordinator_address(const cluster::StateFolder& folder, const std::string& address) {
  if (!address.empty()) {
    folder.write(kCoordinatorFile, address + "\n");
    return address;
  }
  if (!folder.has(kCoordinatorFile))
    fail(Errc::kInvalidArgument, "{}: where is the cluster? butterfly join HOST:PORT",
         folder.path().string());
  const std::string text = folder.read(kCoordinatorFile);
  return text.substr(0, text.find('\n'));
}

uint64_t bytes_of(const std::string& text) { return text.empty() ? 0 : parse_bytes(text).or_throw(); }

// What has changed, for the log and for `status` and `doctor`.
void tell(const NodeView& view, const JoinOptions& options, const cluster::StateFolder& folder,
          std::optional<NodeView>& told) {
  if (told && told->same(view)) return;
  if (!view.problem.empty() && (!told || told->problem != view.problem)) log_warn("{}", view.problem);
  if (!view.notice.empty() && (!told || told->notice != view.notice))
    log_warn("{}; the cluster plans around it. To mend it: {}{}", view.notice,
             firewall_command(port_of(view.address)),
             options.listen.empty()
                 ? "; the port is another at every start: 'butterfly join --listen HOST:PORT' fixes it"
                 : "");
  told = view;
  try {
    write_node_view(folder, view);
  } catch (const Error& error) {
    log_debug("{}", error.what());  // a full disk, say: nothing depends on it
  }
}

// What this node has of the cluster's models is moved to others first, so that no request waits for it. A
// second signal ends it at once.
void retire(runtime::ClusterNode& running, const JoinOptions& options) {
  running.retire("its process was told to end");
  const Deadline deadline(SystemClock::instance(), std::chrono::seconds(options.drain_seconds));
  bool said = false;
  const TimePoint began = system_now();
  while ((!running.view().retired || running.cache_wanted()) && !deadline.expired()) {
    if (!said && system_now() - began > kRetireQuiet && !options.quiet) {
      fmt::print(stderr,
                 "Moving the layers of this node to others, for up to {} s (again Ctrl-C ends it at once)\n",
                 options.drain_seconds);
      said = true;
    }
    std::this_thread::sleep_for(kRetireLook);
  }
  if (const auto view = running.view(); !view.why_not_moved.empty())
    log_warn("this node ends with its part of the cluster's models: {}", view.why_not_moved);
}

int join(const JoinOptions& options) {
  install_end_signals();
  bound_heap();
  const cluster::StateFolder folder = cluster::StateFolder::make(state_path(options.state));
  const std::string address = coordinator_address(folder, enrol(folder, options));
  if (options.enrol_only) return kExitOk;
  Compute compute(options.threads);
  runtime::ClusterNodeOptions node;
  node.state = folder.path();
  node.coordinator = address;
  node.listen = options.listen;
  node.advertise = options.advertise;
  node.version = build_info().version;
  node.places = weight_places(options.cache, options.models);
  node.capabilities = runtime::node_capabilities(capability_source(options.capabilities), folder,
                                                 node.places.cache, compute.take().pool());
  node.memory_bytes = bytes_of(options.memory);
  node.fetch_bytes_per_s = bytes_of(options.fetch_rate);
  node.compute = &compute;
  std::atomic<bool> given_up{false};
  node.on_given_up = [&](const std::string&) { given_up = true; };
  runtime::ClusterNode running(std::move(node));
  running.start();
  if (!options.quiet)
    fmt::print(stderr, "Node '{}' at {} works for {} (Ctrl-C ends it; 'butterfly join' starts it again)\n",
               running.self().name, running.address(), address);
  std::optional<NodeView> told;
  while (!end_asked_for() && !given_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    tell(node_view(running.view(), running.self().name, running.address(), address), options, folder, told);
  }
  if (!given_up) retire(running, options);
  tell(node_view(running.view(), running.self().name, running.address(), address), options, folder, told);
  running.stop("the node was told to end");
  return given_up ? kExitFailure : kExitOk;
}

}  // namespace

CommandBody setup_join(CLI::App& app) {
  auto options = std::make_shared<JoinOptions>();
  add_option(app, "ADDRESS", options->address, "HOST:PORT of the cluster's first machine (later: as before)");
  const Flag token =
      add_option(app, "--token", options->token, "Of the line that 'init' or 'token new' printed")
          .type_name("TOKEN");
  add_option(app, "--token-file", options->token_file, "File with the token; - for stdin")
      .type_name("FILE")
      .excludes(token);
  add_option(app, "--name", options->name, "What this machine is called (default: its host name)")
      .type_name("NAME");
  add_state_flag(app, options->state);
  add_option(app, "--listen", options->listen,
             "Where other nodes reach it (default: any port, on the way to the cluster)")
      .type_name("HOST:PORT");
  add_option(app, "--advertise", options->advertise, "Address that others use, where that is another")
      .type_name("HOST:PORT");
  add_threads_flag(app, options->threads);
  add_option(app, "--memory", options->memory,
             "For its part of the model, such as 6GiB (default: what is free)")
      .type_name("BYTES");
  add_option(app, "-m,--model", options->models,
             "Model file that is here already: not fetched if it is the same (repeat)")
      .type_name("FILE")
      .repeatable();
  add_option(app, "--fetch-rate", options->fetch_rate,
             "Bytes per second when fetching weights (default: no bound)")
      .type_name("BYTES");
  add_option(app, "--cache", options->cache, "Folder for fetched weights (default: ~/.cache/butterfly)")
      .type_name("FOLDER");
  add_option(app, "--capabilities", options->capabilities, "").group("");
  add_option(app, "--drain-seconds", options->drain_seconds,
             "When told to end: time for others to take over its part; 0: end at once")
      .type_name("SECONDS")
      .show_default();
  add_flag(app, "--enrol-only", options->enrol_only,
           "Get the certificate and end; 'butterfly join' starts the node");
  add_flag(app, "--quiet", options->quiet, "Say only what goes wrong");
  return [options, &app] {
    if (!log_level_given(app) && !options->quiet) set_log_level(LogLevel::kInfo);
    return join(*options);
  };
}

}  // namespace butterfly::cli
