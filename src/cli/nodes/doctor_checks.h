// What may keep a cluster from working well, and what to do about it. Each check looks at one thing.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/nodes/member_status.h"
#include "cluster/identity/wall_time.h"
#include "cluster/member/status.h"
#include "cluster/node/discovery.h"

namespace butterfly::cli {

enum class Level { kOk, kWarning, kProblem };

struct Finding {
  Level level = Level::kOk;
  std::string check;  // "clock"
  std::string text;   // what was found
  std::string fix;    // what to do; empty when all is well
};
using Findings = std::vector<Finding>;

// Keys, certificates and their dates. A machine without them belongs to no cluster, which is no fault.
Findings check_identity(const std::filesystem::path& state, cluster::WallTime now);
// Whether this machine can listen there, or somebody does already; `ours`: a server of ours runs.
Findings check_port(const std::string& what, uint16_t port, bool udp, bool ours);
// Best first, as kernels::available_targets() has them.
Findings check_cpu(const std::vector<std::string>& targets);
Findings check_memory(uint64_t free_bytes, uint64_t limit_bytes, uint64_t machine_bytes);
// CPUs worth of time that a control group leaves of those this machine has; none: all.
Findings check_cpu_quota(std::optional<double> quota, size_t cpus);
// What was measured of this machine and kept in the folder, if anything was.
Findings check_measured(const std::filesystem::path& state, size_t threads, cluster::WallTime now);
// That somebody accepts connections at "host:port" within `timeout`.
Findings check_reach(const std::string& address, std::chrono::milliseconds timeout);
// What was found on the local network: a suggestion, never trusted.
Findings check_network(const Result<std::vector<cluster::FoundCluster>>& found);
// Nodes among each other: versions, clocks, doubled identities and names, silence, links.
Findings check_cluster(const cluster::ClusterStatus& status);
// This machine as a node: whether its coordinator answers, whether it runs, whether others reach it.
Findings check_member(const MemberStatus& member);

}  // namespace butterfly::cli
