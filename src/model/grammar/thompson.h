// Thompson's construction: from the tree of an expression to states and edges over bytes. Regular expressions
// and grammars differ only in their leaves.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/grammar/code_points.h"
#include "model/grammar/limits.h"
#include "model/grammar/regex_parser.h"

namespace butterfly::model::grammar {

// One character of the set leads from `from` to `to`, as UTF-8. Sequences with the same ending share its
// states. `Automaton` has add_state() and add_edge(from, first, last, to).
template <typename Automaton>
void add_utf8_edges(Automaton& automaton, uint32_t from, uint32_t to, const CodePointSet& set) {
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, uint32_t> endings;
  for (const ByteSequence& sequence : utf8_sequences(set)) {
    uint32_t target = to;
    std::vector<std::pair<uint8_t, uint8_t>> ending;
    for (int i = sequence.count - 1; i > 0; --i) {
      const ByteRange range = sequence.bytes[static_cast<size_t>(i)];
      ending.emplace_back(range.first, range.last);
      auto [found, is_new] = endings.try_emplace(ending, 0);
      if (is_new) {
        found->second = automaton.add_state();
        automaton.add_edge(found->second, range.first, range.last, target);
      }
      target = found->second;
    }
    automaton.add_edge(from, sequence.bytes[0].first, sequence.bytes[0].last, target);
  }
}

// Adds parts of a tree to an automaton, which also has add_jump(from, to), and add_leaf(node, from) for kinds
// of nodes that are its own: it returns the state in which the part ends. One thread.
template <typename Automaton>
class Thompson {
 public:
  // Borrows both. `what` begins the message when the tree needs too much: "the expression".
  Thompson(std::span<const RegexNode> nodes, Automaton& automaton, std::string_view what)
      : nodes_(nodes), automaton_(automaton), what_(what) {}

  // Adds the part from `from` on and returns the state it ends in. The recursion is as deep as the tree,
  // which the parser bounds. Throws Error kOutOfMemory.
  uint32_t add(uint32_t index, uint32_t from) {
    // Repetitions of nothing make no states, but take time.
    if (++steps_ > 4 * kNfaStatesMax)
      fail(Errc::kOutOfMemory, "{} needs more than {} steps to build", what_, 4 * kNfaStatesMax);
    const RegexNode& node = nodes_[index];
    switch (node.kind) {
      case RegexNode::Kind::kSet: {
        const uint32_t to = automaton_.add_state();
        add_utf8_edges(automaton_, from, to, node.set);
        return to;
      }
      case RegexNode::Kind::kConcat:
        for (const uint32_t child : node.children) from = add(child, from);
        return from;
      case RegexNode::Kind::kAlternatives: {
        const uint32_t to = automaton_.add_state();
        for (const uint32_t child : node.children) {
          const uint32_t begin = automaton_.add_state();
          automaton_.add_jump(from, begin);
          automaton_.add_jump(add(child, begin), to);
        }
        return to;
      }
      case RegexNode::Kind::kRepeat:
        return add_repeat(node, from);
      default:
        return automaton_.add_leaf(node, from);
    }
  }

 private:
  uint32_t add_repeat(const RegexNode& node, uint32_t from) {
    for (uint32_t i = 0; i < node.min; ++i) from = add(node.children[0], from);
    if (node.max == RegexNode::kNoMax) {
      const uint32_t loop = automaton_.add_state();
      automaton_.add_jump(from, loop);
      automaton_.add_jump(add(node.children[0], loop), loop);
      // A state behind the loop, so that later parts cannot lead back into it.
      const uint32_t to = automaton_.add_state();
      automaton_.add_jump(loop, to);
      return to;
    }
    const uint32_t to = automaton_.add_state();
    automaton_.add_jump(from, to);
    for (uint32_t i = node.min; i < node.max; ++i) {
      from = add(node.children[0], from);
      automaton_.add_jump(from, to);
    }
    return to;
  }

  std::span<const RegexNode> nodes_;
  Automaton& automaton_;
  std::string_view what_;
  size_t steps_ = 0;
};

}  // namespace butterfly::model::grammar
