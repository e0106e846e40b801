// Makes an automaton by following a step function from a start until no new state comes.
#pragma once
#include <map>
#include <utility>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/dfa.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

// step(key, representative byte of a class) -> optional key; label(key) -> 0 or a label. `dfa` comes with
// class_of and classes set; representatives[c] is a byte of class c. `cost`: of one step, for the budget.
template <typename Key, typename Step, typename Label>
Dfa explore(Dfa dfa, std::span<const uint8_t> representatives, const Key& start, Step&& step, Label&& label,
            uint64_t cost = 1) {
  std::map<Key, uint32_t> ids;
  std::vector<const Key*> keys{nullptr};
  dfa.next.assign(dfa.classes, 0);
  dfa.label.assign(1, 0);
  const auto id_of = [&](const Key& key) {
    const auto [found, is_new] = ids.try_emplace(key, static_cast<uint32_t>(keys.size()));
    if (is_new) {
      keys.push_back(&found->first);
      dfa.label.push_back(label(key));
      dfa.next.resize(dfa.next.size() + dfa.classes, 0);
      if (keys.size() > kDfaStatesMax || dfa.next.size() > kDfaCellsMax)
        fail(Errc::kOutOfMemory, "needs more than {} states", keys.size() - 1);
    }
    return found->second;
  };
  dfa.start = id_of(start);
  for (size_t state = 1; state < keys.size(); ++state) {
    CompileBudget::spend(dfa.classes * cost);
    for (uint32_t c = 0; c < dfa.classes; ++c) {
      const auto to = step(*keys[state], representatives[c]);
      if (to) {
        const uint32_t id = id_of(*to);
        dfa.next[state * dfa.classes + c] = id;
      }
    }
  }
  return finished(std::move(dfa));
}

}  // namespace butterfly::model::grammar
