#include "runtime/nodes/mpi_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/cpu.h"
#include "base/error.h"
#include "cluster/enrol/join.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"
#include "cluster/transport/socket.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kStartMax = std::chrono::minutes(10);  // weights may be large
constexpr Duration kJoinMax = std::chrono::seconds(60);
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kEndMax = std::chrono::seconds(20);  // for the first rank to say that it is over
constexpr auto kTokenLife = std::chrono::hours(1);

std::string rank_name(size_t rank) { return fmt::format("rank-{}", rank); }

std::string host_name() {
  char text[256] = {};
  return ::gethostname(text, sizeof text - 1) == 0 ? text : "unknown";
}

size_t number_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoul(text, nullptr, 10);
}

// "host:port" of the first rank as others reach it; "" where there is none but loopback.
std::string reachable(const std::string& listens, bool one_machine) {
  const std::string port = cluster::split_address(listens).or_throw().port;
  return fmt::format("{}:{}", one_machine ? "127.0.0.1" : host_name(), port);
}

}  // namespace

bool is_rank_of_several() {
  return std::max({number_in("OMPI_COMM_WORLD_SIZE"), number_in("PMI_SIZE"),
                   number_in("SLURM_STEP_NUM_TASKS")}) > 1;
}

size_t threads_of_rank(cluster::MpiWorld& world) {
  const std::string mine = fmt::format("{} {}", host_name(), fmt::join(allowed_cpus(), ","));
  const auto all = world.gather(mine);
  const auto sharing = static_cast<size_t>(std::ranges::count(all, mine));
  return std::max<size_t>(1, default_thread_count() / sharing);
}

std::shared_ptr<ClusterHost> MpiCluster::make(ClusterHostOptions host) {
  cluster::MpiWorld& world = *options_.world;
  const cluster::StateFolder folder = cluster::StateFolder::make(folder_.path() / "state");
  const cluster::Credentials credentials =
      cluster::found_cluster(folder, "mpi", rank_name(0), cluster::wall_now());
  const cluster::JoinToken token =
      cluster::TokenBook(folder)
          .make(credentials.authority.sha256(), static_cast<int>(world.size() - 1), kTokenLife,
                cluster::wall_now())
          .or_throw();
  const std::vector<std::string> machines = world.gather(host_name());
  const bool one_machine = std::ranges::count(machines, machines.front()) == std::ssize(machines);
  host.state = folder.path();
  if (host.listen.empty() || host.listen == ClusterHostOptions().listen)
    host.listen = one_machine ? "127.0.0.1:0" : "0.0.0.0:0";
  host.places = options_.places;
  host.capabilities =
      node_capabilities(options_.capabilities, folder, options_.places.cache, host.compute->take().pool());
  host.nodes_wanted = world.size();
  host.nodes_wait = kStartMax;
  host.mpi = options_.world;
  auto made = std::make_shared<ClusterHost>(std::move(host));
  world.broadcast(reachable(made->address(), one_machine) + "\n" + token.text());
  return made;
}

void MpiNode::run(Compute& compute, const std::string& version, const std::function<bool()>& end_asked_for) {
  cluster::MpiWorld& world = *options_.world;
  (void)world.gather(host_name());
  const cluster::StateFolder folder = cluster::StateFolder::make(folder_.path() / "state");
  ClusterNodeOptions node;
  // Before the first rank is asked for anything: it measures itself at the same time.
  node.capabilities =
      node_capabilities(options_.capabilities, folder, options_.places.cache, compute.take().pool());
  const std::string told = world.broadcast("");
  const size_t line = told.find('\n');
  node.coordinator = told.substr(0, line);
  const cluster::JoinToken token = cluster::JoinToken::parse(told.substr(line + 1)).or_throw();
  cluster::join_cluster(folder, node.coordinator, token, rank_name(world.rank()), kJoinMax);
  node.state = folder.path();
  node.version = version;
  node.places = options_.places;
  node.compute = &compute;
  node.mpi = options_.world;
  std::atomic<bool> given_up{false};
  node.on_given_up = [&](const std::string&) { given_up = true; };
  ClusterNode running(std::move(node));
  running.start();
  std::optional<Deadline> end;
  while (!world.end_told()) {
    if (given_up) fail(Errc::kPeerLost, "the first rank does not want {} any more", rank_name(world.rank()));
    if (!end && end_asked_for()) end = Deadline(SystemClock::instance(), kEndMax);
    if (end && end->expired()) fail(Errc::kTimeout, "the first rank did not end the job");
    SystemClock::instance().sleep_for(kLook);
  }
  running.stop("the job is over");
}

}  // namespace butterfly::runtime
