#include "cluster/member/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace butterfly::cluster {

bool StagePlacement::same_work(const StagePlacement& other) const {
  return begin == other.begin && end == other.end &&
         std::ranges::equal(members, other.members, [](const StageMember& a, const StageMember& b) {
           return a.node == b.node && a.share == b.share;
         });
}

const StageMember* StagePlacement::find(const NodeId& node) const {
  const auto found = std::ranges::find(members, node, &StageMember::node);
  return found == members.end() ? nullptr : &*found;
}

const StagePlacement* Placement::find(const NodeId& node) const {
  for (const StagePlacement& stage : stages)
    if (stage.find(node) != nullptr) return &stage;
  return nullptr;
}

const StageMember* Placement::find_member(const NodeId& node) const {
  const StagePlacement* stage = find(node);
  return stage == nullptr ? nullptr : stage->find(node);
}

std::vector<NodeId> Placement::nodes() const {
  std::vector<NodeId> nodes;
  for (const StagePlacement& stage : stages)
    for (const StageMember& member : stage.members) nodes.push_back(member.node);
  return nodes;
}

bool Placement::same_work(const Placement& other) const {
  return pieces == other.pieces &&
         std::ranges::equal(stages, other.stages,
                            [](const StagePlacement& a, const StagePlacement& b) { return a.same_work(b); });
}

std::string why_not_whole(const Placement& placement) {
  uint32_t next = 0;
  std::set<std::string> seen;
  if (placement.stages.empty()) return "it has no stages";
  for (const StagePlacement& stage : placement.stages) {
    if (stage.begin != next || stage.end <= stage.begin)
      return fmt::format("a stage has pieces {} to {}, expected to begin at {}", stage.begin, stage.end,
                         next);
    if (stage.members.size() > kMembersMax)
      return fmt::format("the stage of pieces {} to {} has {} members, at most {} are allowed", stage.begin,
                         stage.end, stage.members.size(), kMembersMax);
    std::vector<Share> shares;
    for (const StageMember& member : stage.members) {
      if (!seen.insert(member.node.key).second)
        return fmt::format("node {} has two parts of it", member.node.name);
      shares.push_back(member.share);
    }
    if (const std::string why = why_not_covered(shares); !why.empty())
      return fmt::format("the stage of pieces {} to {}: {}", stage.begin, stage.end, why);
    next = stage.end;
  }
  if (next != placement.pieces) return fmt::format("it ends at piece {} of {}", next, placement.pieces);
  return {};
}

bool are_neighbours(const Placement& placement, const NodeId& coordinator, const NodeId& a, const NodeId& b) {
  if (a == coordinator) return b.key.empty() || placement.find(b) != nullptr;
  const auto& stages = placement.stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].find(a) == nullptr) continue;
    if (b.key.empty() || (stages[i].find(b) != nullptr && !(a == b))) return true;
    // The way to other stages is the first member's.
    return stages[i].first() == a && ((i == 0 ? coordinator : stages[i - 1].first()) == b ||
                                      (i + 1 == stages.size() ? coordinator : stages[i + 1].first()) == b);
  }
  return false;
}

std::vector<std::pair<NodeId, NodeId>> ways_between(const Placement& placement, const NodeId& a,
                                                    const NodeId& b) {
  std::vector<std::pair<NodeId, NodeId>> ways;
  const auto& stages = placement.stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    const NodeId &from = stages[i].first(), &to = stages[(i + 1) % stages.size()].first();
    if ((from == a && to == b) || (from == b && to == a)) ways.emplace_back(from, to);
    if (stages[i].find(a) != nullptr && stages[i].find(b) != nullptr)
      ways.insert(ways.end(), {{a, b}, {b, a}});
  }
  if (ways.empty()) ways.emplace_back(a, b);
  return ways;
}

}  // namespace butterfly::cluster
