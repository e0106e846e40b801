#include "cluster/node/cluster_spec.h"

#include <cmath>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

void expect_positive(const NodeSpec& node, const char* what, double value) {
  if (!(value > 0) || !std::isfinite(value))
    fail(Errc::kInvalidArgument, "node {}: {}: expected more than 0, found {}", node.name, what, value);
}

void check_node(const NodeSpec& node) {
  if (node.name.empty()) fail(Errc::kInvalidArgument, "a node has no name");
  if (node.threads == 0)
    fail(Errc::kInvalidArgument, "node {}: threads: expected at least 1, found 0", node.name);
  expect_positive(node, "f32 rate", node.f32_rate());
  expect_positive(node, "int8 rate", node.int8_rate());
  expect_positive(node, "other rate", node.other_rate());
  expect_positive(node, "memory bandwidth", node.memory_rate());
  if (!(node.piece_overhead_s >= 0) || !std::isfinite(node.piece_overhead_s))
    fail(Errc::kInvalidArgument, "node {}: overhead: expected at least 0, found {}", node.name,
         node.piece_overhead_s);
}

}  // namespace

std::optional<size_t> ClusterSpec::find(std::string_view name) const {
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].name == name) return i;
  return std::nullopt;
}

void ClusterSpec::connect_all(const LinkSpec& link) { links.assign(nodes.size() * nodes.size(), link); }

void ClusterSpec::check() const {
  if (nodes.empty()) fail(Errc::kInvalidArgument, "the cluster has no nodes");
  if (coordinator >= nodes.size())
    fail(Errc::kInvalidArgument, "coordinator {}: the cluster has {} nodes", coordinator, nodes.size());
  if (links.size() != nodes.size() * nodes.size())
    fail(Errc::kInvalidArgument, "{} links for {} nodes, expected one per ordered pair", links.size(),
         nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    check_node(nodes[i]);
    if (*find(nodes[i].name) != i)
      fail(Errc::kInvalidArgument, "two nodes have the name '{}'", nodes[i].name);
    for (size_t j = 0; j < nodes.size(); ++j) {
      if (i == j) continue;
      const LinkSpec& l = link(i, j);
      if (!(l.bandwidth > 0) || !(l.latency_s >= 0) || !std::isfinite(l.latency_s))
        fail(Errc::kInvalidArgument,
             "link {} -> {}: expected a bandwidth above 0 and a latency of at least 0, found {} B/s and {} s",
             nodes[i].name, nodes[j].name, l.bandwidth, l.latency_s);
    }
  }
}

}  // namespace butterfly::cluster
