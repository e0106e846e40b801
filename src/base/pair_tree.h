// The tree that sums are made by where their order must not show: neighbours become one, (0 1) (2 3) ..., the
// last one moves up alone where their number is odd, and so on. Only the number of leaves shapes it.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace butterfly {

// A place in the tree: level 0 are the leaves. One that has no neighbour has the sum of the one above it.
struct PairNode {
  uint32_t level = 0;
  uint32_t index = 0;
  friend auto operator<=>(const PairNode&, const PairNode&) = default;
};

struct LeafRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool contains(const LeafRange& other) const { return begin <= other.begin && other.end <= end; }
  friend bool operator==(const LeafRange&, const LeafRange&) = default;
};

// Immutable, of no memory: pass it by value.
class PairTree {
 public:
  static constexpr uint32_t kLevelsMax = 48;
  explicit PairTree(size_t leaves) : leaves_(leaves) {}

  size_t leaves() const { return leaves_; }
  // The leaves below a node; empty for one that does not exist.
  LeafRange range(PairNode node) const {
    if (node.level > kLevelsMax) return {};
    const size_t begin = std::min(leaves_, size_t{node.index} << node.level);
    return {begin, std::min(leaves_, begin + (size_t{1} << node.level))};
  }
  bool is_root(PairNode node) const { return node.index == 0 && range(node).end == leaves_; }
  static PairNode parent(PairNode node) { return {node.level + 1, node.index / 2}; }
  static PairNode neighbour(PairNode node) { return {node.level, node.index ^ 1}; }
  bool exists(PairNode node) const { return !range(node).empty(); }

  // The highest node with the leaves of `node`, or more, that are all in `within`; not above `level_max`.
  PairNode highest(PairNode node, const LeafRange& within, uint32_t level_max = kLevelsMax) const {
    while (node.level < level_max && !is_root(node) && within.contains(range(parent(node))))
      node = parent(node);
    return node;
  }
  // What whoever has the leaves of a range can sum up alone: the largest whole subtrees, from left to right.
  std::vector<PairNode> subtrees(const LeafRange& of, uint32_t level_max = kLevelsMax) const {
    std::vector<PairNode> nodes;
    for (size_t at = of.begin; at < of.end; at = range(nodes.back()).end)
      nodes.push_back(highest({0, static_cast<uint32_t>(at)}, of, level_max));
    return nodes;
  }

  // The nodes of a level, side by side, are all leaves.
  size_t count(uint32_t level) const {
    return (leaves_ >> level) + ((leaves_ & ((size_t{1} << level) - 1)) == 0 ? 0 : 1);
  }
  // The lowest level with at most so many nodes (1 or more).
  uint32_t level_of_at_most(size_t nodes) const {
    uint32_t level = 0;
    while (level < kLevelsMax && count(level) > nodes) ++level;
    return level;
  }

 private:
  size_t leaves_;
};

}  // namespace butterfly
