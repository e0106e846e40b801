#include "model/grammar/regex.h"

#include "base/error.h"
#include "model/grammar/limits.h"
#include "model/grammar/nfa.h"
#include "model/grammar/regex_parser.h"

namespace butterfly::model::grammar {

namespace {

using Kind = RegexNode::Kind;

// Thompson's construction. The recursion is as deep as the tree, which the parser bounds.
class Builder {
 public:
  explicit Builder(const RegexTree& tree) : tree_(tree) {}

  Dfa build(uint32_t root) {
    const uint32_t start = nfa_.add_state();
    const uint32_t final = nfa_.add_state();
    // The expression may begin anywhere, and nothing matters behind it.
    nfa_.add_set(start, start, CodePointSet::all());
    nfa_.add_set(final, final, CodePointSet::all());
    nfa_.add_jump(add(root, start), final);
    return nfa_.determinize(start, final);
  }

 private:
  // Adds the part from `from` on and returns the state it ends in.
  uint32_t add(uint32_t index, uint32_t from) {
    // Repetitions of nothing make no states, but take time.
    if (++steps_ > 4 * kNfaStatesMax)
      fail(Errc::kOutOfMemory, "the expression needs more than {} steps to build", 4 * kNfaStatesMax);
    const RegexNode& node = tree_.nodes[index];
    switch (node.kind) {
      case Kind::kEmpty:
      case Kind::kRule:
        return from;
      case Kind::kSet: {
        const uint32_t to = nfa_.add_state();
        nfa_.add_set(from, to, node.set);
        return to;
      }
      case Kind::kConcat: {
        for (const uint32_t child : node.children) from = add(child, from);
        return from;
      }
      case Kind::kAlternatives: {
        const uint32_t to = nfa_.add_state();
        for (const uint32_t child : node.children) {
          const uint32_t begin = nfa_.add_state();
          nfa_.add_jump(from, begin);
          nfa_.add_jump(add(child, begin), to);
        }
        return to;
      }
      case Kind::kRepeat:
        return add_repeat(node, from);
      case Kind::kBegin:
        return conditional(from, Nfa::When::kAtBegin);
      case Kind::kEnd:
        return conditional(from, Nfa::When::kAtEnd);
    }
    return from;
  }

  uint32_t add_repeat(const RegexNode& node, uint32_t from) {
    for (uint32_t i = 0; i < node.min; ++i) from = add(node.children[0], from);
    if (node.max == RegexNode::kNoMax) {
      const uint32_t loop = nfa_.add_state();
      nfa_.add_jump(from, loop);
      nfa_.add_jump(add(node.children[0], loop), loop);
      // A state behind the loop, so that later parts cannot lead back into it.
      const uint32_t to = nfa_.add_state();
      nfa_.add_jump(loop, to);
      return to;
    }
    const uint32_t to = nfa_.add_state();
    nfa_.add_jump(from, to);
    for (uint32_t i = node.min; i < node.max; ++i) {
      from = add(node.children[0], from);
      nfa_.add_jump(from, to);
    }
    return to;
  }

  uint32_t conditional(uint32_t from, Nfa::When when) {
    const uint32_t to = nfa_.add_state();
    nfa_.add_jump(from, to, when);
    return to;
  }

  const RegexTree& tree_;
  Nfa nfa_;
  size_t steps_ = 0;
};

}  // namespace

Dfa regex_dfa(std::string_view expression) {
  const RegexTree tree = parse_regex(expression);
  Dfa dfa = Builder(tree).build(tree.root);
  for (const RegexTree::LookAhead& look : tree.look_aheads) {
    const Dfa seen = Builder(tree).build(look.root);
    const DfaFactor factors[] = {{&dfa, true}, {&seen, !look.negative}};
    dfa = product(factors, [&](std::span<const uint32_t> labels) {
      return labels[0] != 0 && (labels[1] != 0) != look.negative ? 1u : 0u;
    });
  }
  return dfa;
}

}  // namespace butterfly::model::grammar
