#include "model/grammar/regex.h"

#include "model/grammar/nfa.h"
#include "model/grammar/regex_parser.h"
#include "model/grammar/thompson.h"

namespace butterfly::model::grammar {

namespace {

// What is particular to expressions: they know where a text begins and ends.
struct RegexAutomaton : Nfa {
  uint32_t add_leaf(const RegexNode& node, uint32_t from) {
    if (node.kind != RegexNode::Kind::kBegin && node.kind != RegexNode::Kind::kEnd) return from;
    const uint32_t to = add_state();
    add_jump(from, to, node.kind == RegexNode::Kind::kBegin ? When::kAtBegin : When::kAtEnd);
    return to;
  }
};

Dfa dfa_of(const RegexTree& tree, uint32_t root) {
  RegexAutomaton nfa;
  const uint32_t start = nfa.add_state();
  const uint32_t final = nfa.add_state();
  // The expression may begin anywhere, and nothing matters behind it.
  add_utf8_edges(nfa, start, start, CodePointSet::all());
  add_utf8_edges(nfa, final, final, CodePointSet::all());
  nfa.add_jump(Thompson(std::span(tree.nodes), nfa, "the expression").add(root, start), final);
  return nfa.determinize(start, final);
}

}  // namespace

Dfa regex_dfa(std::string_view expression) {
  const RegexTree tree = parse_regex(expression);
  Dfa dfa = dfa_of(tree, tree.root);
  for (const RegexTree::LookAhead& look : tree.look_aheads) {
    const Dfa seen = dfa_of(tree, look.root);
    const DfaFactor factors[] = {{&dfa, true}, {&seen, !look.negative}};
    dfa = product(factors, [&](std::span<const uint32_t> labels) {
      return labels[0] != 0 && (labels[1] != 0) != look.negative ? 1u : 0u;
    });
  }
  return dfa;
}

}  // namespace butterfly::model::grammar
