#include "runtime/planning/node_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/balance/rebalance.h"

namespace butterfly::runtime {
namespace {

using cluster::LinkSpec;
using cluster::PlanNode;
using cluster::PlanQuestion;

constexpr LinkSpec kFree{.latency_s = 0, .bandwidth = 1e15};
constexpr LinkSpec kForbidden{.latency_s = 1e6, .bandwidth = 1e15};  // no plan is worth a step of 12 days

// `row_bytes`: of what a token sends over it.
LinkSpec link_between(const PlanQuestion& question, const PlanNode& from, const PlanNode& to,
                      const LinkSpec& unknown, double row_bytes) {
  const std::pair<std::string, std::string> pair(from.id.key, to.id.key);
  if (std::ranges::find(question.broken, pair) != question.broken.end()) return kForbidden;
  const auto there = question.links.find(pair);
  const auto back = question.links.find({pair.second, pair.first});
  const auto& found = there != question.links.end() ? there : back;
  if (found == question.links.end()) return unknown;
  const LinkSpec spec = found->second.spec_for(row_bytes);
  return spec.bandwidth > 0 ? spec : unknown;
}

// Names are for people, and unique but for keys that were copied.
std::string spec_name(const PlanNode& node, const std::vector<PlanNode>& nodes) {
  const auto same =
      std::ranges::count_if(nodes, [&](const PlanNode& other) { return other.id.name == node.id.name; });
  return same == 1 && !node.id.name.empty() ? node.id.name
                                            : fmt::format("{} ({})", node.id.name, node.id.key);
}

}  // namespace

Result<NodeTable> read_nodes(const PlanQuestion& asked, const NodeTableOptions& options) {
  NodeTable table;
  table.nodes = asked.nodes;
  const auto self = std::ranges::find(table.nodes, asked.coordinator, &PlanNode::id);
  if (self == table.nodes.end()) return Status(Errc::kNotFound, "the coordinator's own node is not ready");
  std::rotate(self, self + 1, table.nodes.end());
  table.self = table.nodes.size() - 1;
  for (const PlanNode& node : table.nodes) {
    const auto usable = static_cast<uint64_t>(kMemoryShare * static_cast<double>(node.ram_free_bytes));
    table.spec.nodes.push_back(node_spec(node.capabilities, spec_name(node, table.nodes), options.type,
                                         usable - std::min(usable, options.activation_bytes)));
    cluster::slow_down(table.spec.nodes.back(), node.slowness);
  }
  if (options.with_front) {
    cluster::NodeSpec front = table.spec.nodes[table.self];
    front.name = kFront;
    front.ram_bytes = 0;
    table.spec.nodes.push_back(front);
  }
  const auto link = [&](size_t from, size_t to) {
    LinkSpec spec =
        link_between(asked, table.nodes[from], table.nodes[to], options.unknown_link, options.row_bytes);
    spec.latency_s += table.nodes[to].held_up_s;
    return spec;
  };
  const size_t count = table.nodes.size();
  table.spec.connect_all(options.unknown_link);
  table.spec.coordinator = table.spec.nodes.size() - 1;
  const bool ends = options.with_front && !options.with_groups;
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to)
      if (from != to) table.spec.link(from, to) = ends && from == table.self ? kForbidden : link(from, to);
  if (!options.with_front) return table;
  for (size_t node = 0; node < count; ++node) {
    const bool is_self = node == table.self;
    table.spec.link(count, node) = is_self ? kFree : link(table.self, node);
    table.spec.link(node, count) = is_self ? kFree : kForbidden;
  }
  return table;
}

}  // namespace butterfly::runtime
