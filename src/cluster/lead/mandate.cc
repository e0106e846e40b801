#include "cluster/lead/mandate.h"

#include <fmt/format.h>

#include <algorithm>

namespace butterfly::cluster {
namespace {

bool majority(const std::vector<NodeId>& of, const std::function<bool(const std::string& key)>& agreed) {
  const auto count = std::ranges::count_if(of, [&](const NodeId& node) { return agreed(node.key); });
  return static_cast<size_t>(count) * 2 > of.size();
}

}  // namespace

bool Mandate::may_lead(std::string_view key) const {
  return std::ranges::any_of(seats, [&](const NodeId& node) { return node.key == key; });
}

bool Mandate::quorum(const std::function<bool(const std::string& key)>& agreed) const {
  return majority(voters, agreed) && (before.empty() || majority(before, agreed));
}

std::vector<NodeId> Mandate::everybody() const {
  std::vector<NodeId> nodes;
  for (const auto* list : {&seats, &voters, &before})
    for (const NodeId& node : *list)
      if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  return nodes;
}

// Keys have a fixed form and no line break can be in a name that a certificate has; all the same the lengths
// say where each begins.
std::string Mandate::text() const {
  std::string text = fmt::format("butterfly mandate {}\n", version);
  for (const auto* list : {&seats, &voters, &before}) {
    text += fmt::format("{}\n", list->size());
    for (const NodeId& node : *list)
      text += fmt::format("{} {} {} {}\n", node.key.size(), node.key, node.name.size(), node.name);
  }
  return text;
}

bool Mandate::signed_by(const Certificate& authority) const {
  return authority.signed_text(text(), signature);
}

}  // namespace butterfly::cluster
