// Machines and the links between them, as the planner sees them.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/node/node_spec.h"

namespace butterfly::cluster {

// One direction between two nodes. A message of b bytes arrives after latency_s + b / bandwidth and occupies
// the link for b / bandwidth.
struct LinkSpec {
  double latency_s = 0;  // from send() to recv(), software included
  double bandwidth = 0;  // bytes/s
  double occupancy_s(double bytes) const { return bytes / bandwidth; }
  double message_s(double bytes) const { return latency_s + occupancy_s(bytes); }
};

// Nodes, links per ordered pair, and who owns the requests. Plain data; check() before use.
struct ClusterSpec {
  std::vector<NodeSpec> nodes;
  std::vector<LinkSpec> links;  // [from * nodes + to]; the diagonal is not used
  size_t coordinator = 0;       // where tokens come from and go to

  size_t size() const { return nodes.size(); }
  const LinkSpec& link(size_t from, size_t to) const { return links[from * nodes.size() + to]; }
  LinkSpec& link(size_t from, size_t to) { return links[from * nodes.size() + to]; }
  std::optional<size_t> find(std::string_view name) const;

  // Makes room for all pairs, each with this link.
  void connect_all(const LinkSpec& link);
  // Throws Error kInvalidArgument naming the node or link, the expected and the found.
  void check() const;
};

}  // namespace butterfly::cluster
