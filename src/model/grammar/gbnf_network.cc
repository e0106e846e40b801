#include "model/grammar/gbnf_network.h"

#include <algorithm>

#include "base/error.h"
#include "model/grammar/limits.h"
#include "model/grammar/thompson.h"

namespace butterfly::model::grammar {

namespace {

// What is particular to grammars: a rule is a part that is called.
class Builder {
 public:
  GbnfNetwork build(const GbnfTree& tree) {
    Thompson construction(std::span(tree.nodes), *this, "grammar:");
    for (const GbnfRule& rule : tree.rules) {
      const uint32_t start = add_state();
      out_.starts.push_back(start);
      const uint32_t end = construction.add(rule.root, start);
      out_.states[end].final = true;
    }
    out_.root = out_.starts[tree.root];
    return std::move(out_);
  }

  uint32_t add_state() {
    if (out_.states.size() >= kNfaStatesMax)
      fail(Errc::kOutOfMemory, "grammar: needs more than {} states", kNfaStatesMax);
    out_.states.emplace_back();
    return static_cast<uint32_t>(out_.states.size() - 1);
  }
  void add_jump(uint32_t from, uint32_t to) { out_.states[from].jumps.push_back(to); }
  void add_edge(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
    out_.states[from].edges.push_back({first, last, to});
  }
  uint32_t add_leaf(const RegexNode& node, uint32_t from) {
    if (node.kind != RegexNode::Kind::kRule) return from;
    const uint32_t to = add_state();
    out_.states[from].calls.push_back({node.min, to});
    return to;
  }

 private:
  GbnfNetwork out_;
};

// A least fixed point over states: good if final, or if some way on is good. `through_edges`: bytes count as
// ways; else only what takes none.
std::vector<uint8_t> reaches_end(const GbnfNetwork& net, bool through_edges) {
  std::vector<uint8_t> good(net.states.size(), 0);
  std::vector<std::vector<uint32_t>> asks(
      net.states.size());  // states to look at again when this one is good
  for (uint32_t i = 0; i < net.states.size(); ++i) {
    const GbnfNetwork::State& state = net.states[i];
    for (const uint32_t to : state.jumps) asks[to].push_back(i);
    for (const auto& call : state.calls) {
      asks[net.starts[call.rule]].push_back(i);
      asks[call.to].push_back(i);
    }
    if (through_edges)
      for (const auto& edge : state.edges) asks[edge.to].push_back(i);
  }
  std::vector<uint32_t> work(net.states.size());
  for (uint32_t i = 0; i < work.size(); ++i) work[i] = i;
  while (!work.empty()) {
    const uint32_t i = work.back();
    work.pop_back();
    if (good[i]) continue;
    const GbnfNetwork::State& state = net.states[i];
    bool now = state.final;
    for (const uint32_t to : state.jumps) now = now || good[to];
    for (const auto& call : state.calls) now = now || (good[net.starts[call.rule]] && good[call.to]);
    if (through_edges)
      for (const auto& edge : state.edges) now = now || good[edge.to];
    if (!now) continue;
    good[i] = 1;
    work.insert(work.end(), asks[i].begin(), asks[i].end());
  }
  return good;
}

// Rules that can begin with themselves would be called without end.
void check_left_recursion(const GbnfNetwork& net, const GbnfTree& tree) {
  const std::vector<uint8_t> nullable = reaches_end(net, false);
  // Which rules a rule can begin with.
  std::vector<std::vector<uint32_t>> begins(net.starts.size());
  std::vector<uint32_t> mark(net.states.size(), ~uint32_t{0});
  for (uint32_t rule = 0; rule < net.starts.size(); ++rule) {
    std::vector<uint32_t> work{net.starts[rule]};
    const auto visit = [&](uint32_t state) {
      if (mark[state] == rule) return;
      mark[state] = rule;
      work.push_back(state);
    };
    while (!work.empty()) {
      const GbnfNetwork::State& state = net.states[work.back()];
      work.pop_back();
      for (const uint32_t to : state.jumps) visit(to);
      for (const auto& call : state.calls) {
        begins[rule].push_back(call.rule);
        if (nullable[net.starts[call.rule]]) visit(call.to);
      }
    }
  }
  // A cycle, by depth-first search without recursion.
  std::vector<uint8_t> color(net.starts.size(), 0);  // 1: on the path, 2: done
  for (uint32_t from = 0; from < net.starts.size(); ++from) {
    if (color[from] != 0) continue;
    std::vector<std::pair<uint32_t, size_t>> path{{from, 0}};
    color[from] = 1;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == begins[rule].size()) {
        color[rule] = 2;
        path.pop_back();
        continue;
      }
      const uint32_t to = begins[rule][next++];
      if (color[to] == 1)
        fail(Errc::kUnsupported,
             "grammar: rule '{}' can begin with itself (left recursion), which is not supported: "
             "write the repetition behind, as in a ::= b (c b)*",
             tree.rules[to].name);
      if (color[to] == 0) {
        color[to] = 1;
        path.emplace_back(to, 0);
      }
    }
  }
}

}  // namespace

GbnfNetwork build_network(const GbnfTree& tree) {
  GbnfNetwork net = Builder().build(tree);
  check_left_recursion(net, tree);
  const std::vector<uint8_t> good = reaches_end(net, true);
  if (!good[net.root]) fail(Errc::kInvalidArgument, "grammar: no text satisfies the rule 'root'");
  for (GbnfNetwork::State& state : net.states) {
    std::erase_if(state.edges, [&](const auto& edge) { return !good[edge.to]; });
    std::erase_if(state.jumps, [&](uint32_t to) { return !good[to]; });
    std::erase_if(state.calls,
                  [&](const auto& call) { return !good[call.to] || !good[net.starts[call.rule]]; });
  }
  for (bool changed = true; changed;) {
    changed = false;
    // Backwards: states behind others have been made later.
    for (size_t i = net.states.size(); i-- > 0;) {
      GbnfNetwork::State& state = net.states[i];
      if (state.ends_only || !state.edges.empty() || !state.calls.empty()) continue;
      if (!state.final && state.jumps.empty()) continue;
      state.ends_only = std::all_of(state.jumps.begin(), state.jumps.end(),
                                    [&](uint32_t to) { return net.states[to].ends_only; });
      changed |= state.ends_only;
    }
  }
  return net;
}

}  // namespace butterfly::model::grammar
