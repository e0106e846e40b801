// A nondeterministic automaton over bytes, built piece by piece from a regular expression.
#pragma once
#include <cstdint>
#include <vector>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

// A value. One thread builds it; determinize() changes nothing.
class Nfa {
 public:
  enum class When : uint8_t { kAlways, kAtBegin, kAtEnd };

  // Throws Error kOutOfMemory past the limit of states.
  uint32_t add_state();
  void add_jump(uint32_t from, uint32_t to, When when = When::kAlways);
  // One byte from `first` to `last` leads from `from` to `to`.
  void add_edge(uint32_t from, uint8_t first, uint8_t last, uint32_t to);

  // Texts that lead from `start` to `final`. `final` absorbs: once there, the rest of the text does not
  // matter. Throws Error kOutOfMemory past the limits.
  Dfa determinize(uint32_t start, uint32_t final) const;

 private:
  struct Edge {
    uint8_t first, last;
    uint32_t to;
  };
  struct Jump {
    uint32_t to;
    When when;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Jump> jumps;
  };
  class Subsets;

  std::vector<State> states_;
};

}  // namespace butterfly::model::grammar
