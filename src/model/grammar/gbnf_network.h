// A grammar as a recursive transition network: one automaton per rule, whose edges take a byte or call a
// rule.
#pragma once
#include <cstdint>
#include <vector>

#include "model/grammar/gbnf_parser.h"

namespace butterfly::model::grammar {

struct GbnfNetwork {
  struct Edge {
    uint8_t first, last;
    uint32_t to;
  };
  struct Call {
    uint32_t rule;
    uint32_t to;  // where it goes on behind the rule
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<uint32_t> jumps;
    std::vector<Call> calls;
    bool final = false;      // of its rule
    bool ends_only = false;  // without a byte it comes to the end of its rule, and it can do nothing else
  };
  std::vector<State> states;
  std::vector<uint32_t> starts;  // of rules
  uint32_t root = 0;             // start of the rule "root"
};

// Every state of the result can reach the end of its rule. Throws Error: kUnsupported for left recursion,
// kInvalidArgument if no text satisfies the grammar, kOutOfMemory past the limits.
GbnfNetwork build_network(const GbnfTree& tree);

}  // namespace butterfly::model::grammar
