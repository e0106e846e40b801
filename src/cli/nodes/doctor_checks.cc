#include "cli/nodes/doctor_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/firewall.h"
#include "cluster/identity/credentials.h"
#include "cluster/identity/renewal.h"
#include "cluster/node/addresses.h"
#include "cluster/node/capability_file.h"
#include "cluster/transport/socket.h"

namespace butterfly::cli {
namespace {

constexpr double kClockAhead_s = 30;       // certificates are dated an hour back, tokens live an hour
constexpr double kSlowLink = 10e6;         // bytes/s: below a 100 Mbit/s network
constexpr double kSlowRoundTrip_s = 5e-3;  // as over Wi-Fi
constexpr double kSlowDisk = 50e6;         // bytes/s: as memory cards have
constexpr uint64_t kLittleMemory = uint64_t{1} << 30;

class Socket {
 public:
  Socket(int family, int type) : fd_(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

Finding fine(std::string check, std::string text) {
  return {Level::kOk, std::move(check), std::move(text), ""};
}

std::string days(std::chrono::seconds time) { return fmt::format("{} days", time.count() / 86400); }

}  // namespace

Findings check_identity(const std::filesystem::path& state, cluster::WallTime now) {
  constexpr const char* kCheck = "identity";
  try {
    std::error_code none;
    if (!std::filesystem::exists(state, none) || !cluster::has_credentials(cluster::StateFolder::open(state)))
      return {
          {Level::kWarning, kCheck, fmt::format("{}: this machine belongs to no cluster", state.string()),
           "'butterfly init' makes one; 'butterfly join' with a line of 'butterfly token new' joins one"}};
    const cluster::Credentials own = cluster::load_credentials(cluster::StateFolder::open(state));
    const cluster::WallTime begin = own.own.not_before(), end = own.own.not_after();
    if (now < begin)
      return {{Level::kProblem, "clock",
               fmt::format("this machine's clock is {} before its own certificate begins", days(begin - now)),
               "set the clock: 'timedatectl set-ntp true'"}};
    if (now >= end)
      return {{Level::kProblem, kCheck, fmt::format("the certificate ended {} ago", days(now - end)),
               "join again with a new token, or set the clock if it is wrong ('timedatectl')"}};
    Finding found =
        fine(kCheck, fmt::format("node '{}', certificate good for {}", own.id().name, days(end - now)));
    if (cluster::renewal_due(own.own, now)) {
      found.level = Level::kWarning;
      found.fix = "it renews itself while the node is connected: start the node";
    }
    return {found};
  } catch (const Error& error) {
    return {
        {Level::kProblem, kCheck, error.what(),
         fmt::format("only you may read the folder: 'chmod -R go= {}'; if files are damaged, remove them and "
                     "join again",
                     state.string())}};
  }
}

Findings check_port(const std::string& what, uint16_t port, bool udp, bool ours) {
  const Socket fd(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const int yes = 1;
  if (fd < 0) return {{Level::kProblem, what, "no sockets can be opened", "see 'ulimit -n'"}};
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      (udp || ::listen(fd, 1) == 0))
    return {fine(what, fmt::format("port {} is free", port))};
  if (errno == EADDRINUSE && ours)
    return {fine(what, fmt::format("port {} is in use by a running server", port))};
  if (errno == EADDRINUSE)
    return {{Level::kProblem, what, fmt::format("port {} is taken by another program", port),
             fmt::format("find it with 'ss -lptn sport = :{}', or choose another port", port)}};
  return {{Level::kProblem, what, fmt::format("cannot listen on port {}: {}", port, std::strerror(errno)),
           port < 1024 ? "choose a port from 1024 on" : "see what limits network use on this machine"}};
}

Findings check_cpu(const std::vector<std::string>& targets) {
  const std::string best = targets.empty() ? "ref" : targets.front();
  const std::string text = fmt::format("kernels use {}", best);
  if (best == "ref")
    return {{Level::kProblem, "cpu", text + ": this CPU shows no vector instructions that are supported",
             "in a virtual machine pass the host's CPU through ('-cpu host')"}};
  if (best == "SSE4")
    return {{Level::kWarning, "cpu", text + ": no AVX2, so products are some three times slower",
             "in a virtual machine pass the host's CPU through ('-cpu host')"}};
  return {fine("cpu", text)};
}

Findings check_memory(uint64_t free_bytes, uint64_t limit_bytes, uint64_t machine_bytes) {
  const std::string text =
      fmt::format("{} of {} are free", format_bytes(free_bytes), format_bytes(limit_bytes));
  Findings out;
  if (free_bytes < kLittleMemory || free_bytes < limit_bytes / 8)
    out.push_back({Level::kWarning, "memory", text, "end other programs, or let plans leave this node out"});
  else
    out.push_back(fine("memory", text));
  if (limit_bytes < machine_bytes / 2)
    out.push_back({Level::kWarning, "memory",
                   fmt::format("a control group limits this process to {} of the machine's {}",
                               format_bytes(limit_bytes), format_bytes(machine_bytes)),
                   "raise MemoryMax of the service or the container's memory limit if that is not wanted"});
  return out;
}

Findings check_cpu_quota(std::optional<double> quota, size_t cpus) {
  if (!quota || *quota >= static_cast<double>(cpus)) return {};
  const std::string text = fmt::format("a control group leaves this process {:.2f} of {} CPUs", *quota, cpus);
  if (*quota >= static_cast<double>(cpus) / 2) return {fine("cpu", text)};
  return {{Level::kWarning, "cpu", text,
           "raise CPUQuota of the service or the container's CPU limit if that is not wanted"}};
}

Findings check_measured(const std::filesystem::path& state, size_t threads, cluster::WallTime now) {
  constexpr const char* kCheck = "machine";
  cluster::MeasuredFor here = cluster::this_machine("", threads);
  const std::string name = cluster::capability_file_name(here);
  constexpr const char* kFix = "it is measured when it next starts as a node";
  try {
    std::error_code none;
    if (!std::filesystem::exists(state / name, none))
      return {{Level::kWarning, kCheck, fmt::format("not measured yet with {} threads", threads), kFix}};
    const cluster::Capabilities kept =
        cluster::parse_capabilities(cluster::StateFolder::open(state).read(name)).or_throw();
    std::string text = fmt::format("{} cores, {} threads, {:.1f} GB/s from memory", kept.cores, kept.threads,
                                   kept.memory.all / 1e9);
    for (const cluster::TypeRates& row : kept.kernels)
      text += fmt::format(", {} {:.1f} GB/s and {:.0f} GOP/s", row.type, row.weight_bytes_per_s.all / 1e9,
                          row.operations_per_s.all / 1e9);
    if (kept.cpu_share < 1) text += fmt::format(", in {:.0f} % of the time", 100 * kept.cpu_share);
    if (kept.disk > 0) text += fmt::format(", {:.1f} GB/s from disk", kept.disk / 1e9);
    here.program = kept.program;  // another one measures again by itself
    const std::string why = cluster::why_stale(kept, here, now.time_since_epoch().count());
    if (why.empty()) return {fine(kCheck, text)};
    return {{Level::kWarning, kCheck, fmt::format("{}; but {}", text, why), kFix}};
  } catch (const Error& error) {
    return {{Level::kWarning, kCheck, error.what(), kFix}};
  }
}

Findings check_reach(const std::string& address, std::chrono::milliseconds timeout) {
  constexpr const char* kCheck = "reach";
  const std::string full = cluster::with_port(address);
  const auto socket = cluster::connect_socket(full, Deadline(SystemClock::instance(), timeout));
  if (socket) return {fine(kCheck, fmt::format("{} accepts connections", full))};
  const std::string text = socket.status().text();
  std::string fix = fmt::format("check the network between the machines and let port {} through the firewall",
                                full.substr(full.rfind(':') + 1));
  if (socket.status().code() == Errc::kNotFound) fix = "check the name, or use the address itself";
  if (text.ends_with(std::strerror(ECONNREFUSED)))
    fix = "nobody listens there: start the coordinator, or check the port";
  return {{Level::kProblem, kCheck, text, fix}};
}

Findings check_network(const Result<std::vector<cluster::FoundCluster>>& found) {
  constexpr const char* kCheck = "network";
  if (!found.ok())
    return {{Level::kWarning, kCheck, found.status().text(), "connect this machine to a network"}};
  Findings out;
  for (const cluster::FoundCluster& row : *found)
    out.push_back(
        fine(kCheck, fmt::format("at {} somebody says that it is node '{}' of the cluster '{}'; only a "
                                 "token tells whether that is true",
                                 row.address, row.node, row.cluster)));
  if (out.empty()) out.push_back(fine(kCheck, "no cluster answers on the local network"));
  return out;
}

Findings check_cluster(const cluster::ClusterStatus& status) {
  Findings out;
  std::map<std::string, std::set<std::string>> by_version, by_name;
  for (const cluster::NodeStatus& node : status.nodes) {
    if (node.state != "up" && node.state != "suspect") continue;
    by_version[node.program].insert(node.name);
    by_name[node.name].insert(node.key);
    if (node.state == "suspect")
      out.push_back(
          {Level::kWarning, "health", fmt::format("{}: nothing heard for {:.1f} s", node.name, node.silent_s),
           "look at its load and its network; it is dropped when it stays silent (serve --dead-after)"});
    if (std::abs(node.clock_ahead_s) > kClockAhead_s)
      out.push_back(
          {Level::kProblem, "clock",
           fmt::format("{}: its clock is {:.0f} s {} the coordinator's", node.name,
                       std::abs(node.clock_ahead_s), node.clock_ahead_s > 0 ? "ahead of" : "behind"),
           "on that machine: 'timedatectl set-ntp true'"});
    if (!node.last_failure.empty())
      out.push_back({Level::kWarning, "failure", fmt::format("{}: {}", node.name, node.last_failure),
                     "'butterfly status' shows whether it is in use again"});
    if (node.link_bandwidth > 0 && (node.link_bandwidth < kSlowLink || node.link_rtt_s > kSlowRoundTrip_s))
      out.push_back({Level::kWarning, "link",
                     fmt::format("{}: {:.1f} MB/s, {:.1f} ms and back", node.name, node.link_bandwidth / 1e6,
                                 node.link_rtt_s * 1e3),
                     "use a cable instead of Wi-Fi, or a faster switch"});
  }
  for (const cluster::NodeStatus& node : status.nodes)
    if (node.state == "up" && node.disk_bytes_per_s > 0 && node.disk_bytes_per_s < kSlowDisk)
      out.push_back({Level::kWarning, "disk",
                     fmt::format("{}: reads {:.0f} MB/s: its layers load slowly", node.name,
                                 node.disk_bytes_per_s / 1e6),
                     "keep fetched weights on a faster disk: 'butterfly join --cache FOLDER' there"});
  if (by_version.size() > 1) {
    std::string text;
    for (const auto& [version, names] : by_version)
      text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", version, fmt::join(names, ", "));
    out.push_back({Level::kWarning, "versions", text, "install the same version everywhere"});
  }
  for (const auto& [name, keys] : by_name)
    if (keys.size() > 1)
      out.push_back({Level::kWarning, "names", fmt::format("{} nodes are called '{}'", keys.size(), name),
                     "use keys with 'butterfly node remove', and give one another name with 'join --name'"});
  for (const cluster::UnreachableStatus& row : status.unreachable)
    out.push_back(
        {Level::kProblem, "reach",
         fmt::format("{} cannot reach {} at {}: {}", row.from, row.to, row.address, row.why),
         fmt::format("on {}: {}; 'butterfly doctor' there says which, and 'join --listen HOST:PORT' "
                     "fixes the port",
                     row.to, firewall_commands(port_of(row.address)))});
  for (const cluster::RefusedStatus& row : status.refused)
    out.push_back({Level::kWarning, "refused", fmt::format("{}: {}", row.name, row.why),
                   "docs/cluster.md has the order of an upgrade"});
  if (status.counters.duplicate_ids > 0)
    out.push_back({Level::kProblem, "identity",
                   fmt::format("{} times a second machine came with the identity of one that is here",
                               status.counters.duplicate_ids),
                   "a state folder was copied: remove it on the copy and join again there"});
  if (out.empty())
    out.push_back(
        fine("cluster", fmt::format("{} node{}, {}", status.nodes.size(), status.nodes.size() == 1 ? "" : "s",
                                    status.serving() ? "serving" : "not serving: " + status.reason())));
  return out;
}

Findings check_member(const MemberStatus& member) {
  constexpr const char* kCheck = "node";
  Findings out;
  if (member.view && !member.view->notice.empty())
    out.push_back(
        {Level::kProblem, "reach", member.view->notice, firewall_command(port_of(member.view->address))});
  if (!member.view || !runs(*member.view))
    out.push_back(
        {Level::kWarning, kCheck, "the node of this machine does not run", "start it: 'butterfly join'"});
  else if (!member.view->problem.empty())
    out.push_back({Level::kProblem, kCheck, member.view->problem, "see 'butterfly status'"});
  if (!member.cluster) {
    out.push_back({Level::kProblem, "coordinator",
                   fmt::format("{} cannot be asked: {}", member.coordinator, member.cluster.status().text()),
                   fmt::format("'butterfly doctor {}' says whether it can be reached", member.coordinator)});
    return out;
  }
  const Findings all = check_cluster(*member.cluster);
  out.insert(out.end(), all.begin(), all.end());
  return out;
}

}  // namespace butterfly::cli
