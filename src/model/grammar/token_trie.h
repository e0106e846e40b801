// Byte strings as a tree in one array, so that texts with a common front are followed once.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace butterfly::model::grammar {

// Owns copies of what it needs of the texts. Immutable after the constructor: any thread.
class TokenTrie {
 public:
  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;  // bytes before this one
    uint32_t skip = 0;   // the node behind this one's subtree
    uint32_t first = 0;  // values() before this node's own; a subtree's are consecutive
    uint32_t count = 0;  // values that end here
  };

  // Texts, each with a value; several values may have the same text. Empty texts are left out.
  explicit TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> entries);
  TokenTrie() = default;

  // In the order of a walk that visits a node before its children.
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const uint32_t> values() const { return values_; }
  std::span<const uint32_t> values_at(const Node& node) const {
    return std::span(values_).subspan(node.first, node.count);
  }
  // Values of the node and everything below.
  std::span<const uint32_t> values_below(size_t node) const;
  size_t depth_max() const { return depth_max_; }
  size_t bytes() const { return nodes_.size() * sizeof(Node) + values_.size() * sizeof(uint32_t); }

 private:
  std::vector<Node> nodes_;
  std::vector<uint32_t> values_;
  size_t depth_max_ = 0;
};

// Walks the tree with a state for each depth. step(next, from, byte) makes `next` of `from` and says whether
// the subtree is worth going into; visit(node, state) sees each node that was reached. `states` is scratch
// memory whose first element is the start; it is reused, so that states keep their memory.
template <typename State, typename Step, typename Visit>
void walk(const TokenTrie& trie, std::vector<State>& states, Step&& step, Visit&& visit) {
  if (states.size() < trie.depth_max() + 1) states.resize(trie.depth_max() + 1);
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    if (step(states[node.depth + 1u], states[node.depth], node.byte)) {
      visit(node, states[node.depth + 1u]);
      ++i;
    } else {
      i = node.skip;
    }
  }
}

}  // namespace butterfly::model::grammar
