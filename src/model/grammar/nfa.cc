#include "model/grammar/nfa.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

uint32_t Nfa::add_state() {
  if (states_.size() >= kNfaStatesMax)
    fail(Errc::kOutOfMemory, "the expression needs more than {} states", kNfaStatesMax);
  states_.emplace_back();
  return static_cast<uint32_t>(states_.size() - 1);
}

void Nfa::add_jump(uint32_t from, uint32_t to, When when) { states_[from].jumps.push_back({to, when}); }

void Nfa::add_edge(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
  states_[from].edges.push_back({first, last, to});
}

// The subset construction.
class Nfa::Subsets {
 public:
  Subsets(const Nfa& nfa, uint32_t final) : nfa_(nfa), final_(final), mark_(nfa.states_.size(), 0) {}

  Dfa build(uint32_t start) {
    make_classes();
    dfa_.next.assign(dfa_.classes, 0);
    dfa_.label.assign(1, 0);
    sets_.emplace_back();
    dfa_.start = id_of(closed({start}, true, false), true);
    std::vector<std::vector<uint32_t>> targets(dfa_.classes);
    for (uint32_t state = 1; state < sets_.size(); ++state) {
      for (const uint32_t q : sets_[state])
        for (const Edge& edge : nfa_.states_[q].edges)
          for (uint32_t c = dfa_.class_of[edge.first]; c <= dfa_.class_of[edge.last]; ++c)
            targets[c].push_back(edge.to);
      CompileBudget::spend(dfa_.classes);
      for (uint32_t c = 0; c < dfa_.classes; ++c) {
        if (targets[c].empty()) continue;
        CompileBudget::spend(targets[c].size());
        const uint32_t to = id_of(closed(targets[c], false, false), false);
        dfa_.next[state * dfa_.classes + c] = to;
        targets[c].clear();
      }
    }
    return finished(std::move(dfa_));
  }

 private:
  // Classes are runs of bytes between the ends of edges, so that an edge covers consecutive classes.
  void make_classes() {
    std::array<bool, 257> begins{};
    begins[0] = true;
    for (const State& state : nfa_.states_)
      for (const Edge& edge : state.edges) {
        begins[edge.first] = true;
        begins[edge.last + 1u] = true;
      }
    uint32_t id = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && begins[byte]) ++id;
      dfa_.class_of[byte] = static_cast<uint8_t>(id);
    }
    dfa_.classes = id + 1;
  }

  // States reachable without a byte, sorted; {final} alone if that is among them.
  std::vector<uint32_t> closed(std::vector<uint32_t> states, bool at_begin, bool at_end) {
    ++round_;
    size_t kept = 0;
    for (const uint32_t q : states)
      if (mark_[q] != round_) {
        mark_[q] = round_;
        states[kept++] = q;
      }
    states.resize(kept);
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == final_) return {final_};
      for (const Jump& jump : nfa_.states_[states[i]].jumps) {
        if ((jump.when == When::kAtBegin && !at_begin) || (jump.when == When::kAtEnd && !at_end)) continue;
        if (mark_[jump.to] == round_) continue;
        mark_[jump.to] = round_;
        states.push_back(jump.to);
      }
    }
    CompileBudget::spend(states.size());
    std::sort(states.begin(), states.end());
    return states;
  }

  uint32_t id_of(std::vector<uint32_t> set, bool at_begin) {
    std::string key(reinterpret_cast<const char*>(set.data()), set.size() * sizeof(uint32_t));
    // At the begin of a text more may be accepted than later, so the first set is apart.
    if (at_begin) key += '^';
    const auto [found, is_new] = ids_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
    if (is_new) {
      const bool accepts = closed(set, at_begin, true) == std::vector<uint32_t>{final_};
      set_cells_ += set.size();
      dfa_.label.push_back(accepts ? 1 : 0);
      dfa_.next.resize(dfa_.next.size() + dfa_.classes, 0);
      sets_.push_back(std::move(set));
      if (sets_.size() > kDfaStatesMax || dfa_.next.size() > kDfaCellsMax || set_cells_ > kDfaCellsMax)
        fail(Errc::kOutOfMemory, "the expression needs more than {} states", sets_.size() - 1);
    }
    return found->second;
  }

  const Nfa& nfa_;
  uint32_t final_;
  Dfa dfa_;
  std::vector<std::vector<uint32_t>> sets_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<uint32_t> mark_;
  uint32_t round_ = 0;
  size_t set_cells_ = 0;
};

Dfa Nfa::determinize(uint32_t start, uint32_t final) const { return Subsets(*this, final).build(start); }

}  // namespace butterfly::model::grammar
