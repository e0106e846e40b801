#include "model/grammar/gbnf_workspace.h"

#include <algorithm>
#include <unordered_set>

namespace butterfly::model::grammar {

namespace {

constexpr uint32_t kStackDepthMax = 5000;
constexpr size_t kConfigsMax = 2000;  // in one set

}  // namespace

GbnfWorkspace::GbnfWorkspace(const GbnfNetwork& network) : network_(network) {
  stacks_.resize(2);  // kBottom, kMark
  sets_.emplace_back();
}

bool GbnfWorkspace::spend(uint64_t work) {
  if (work_ < work) {
    exhausted_ = true;
    return false;
  }
  work_ -= work;
  return true;
}

uint32_t GbnfWorkspace::push(uint32_t back, uint32_t parent) {
  // Nothing follows there: return to where that would return to. Repetition by recursion at the end of a rule
  // then needs no more stack than a loop.
  if (network_.states[back].ends_only) return parent;
  const auto [found, is_new] =
      stack_ids_.try_emplace(uint64_t{back} << 32 | parent, static_cast<uint32_t>(stacks_.size()));
  if (is_new) stacks_.push_back({back, parent, stacks_[parent].depth + 1});
  return found->second;
}

GbnfWorkspace::SetId GbnfWorkspace::closed(std::vector<Config> configs) {
  std::unordered_set<uint64_t> seen;
  std::vector<Config> kept;
  const auto key = [](const Config& c) { return uint64_t{c.state} << 32 | c.stack; };
  for (const Config& c : configs) seen.insert(key(c));
  const auto visit = [&](Config c) {
    if (seen.insert(key(c)).second) configs.push_back(c);
  };
  while (!configs.empty()) {
    const Config c = configs.back();
    configs.pop_back();
    if (!spend(4) || kept.size() > kConfigsMax) {
      exhausted_ = true;
      return 0;
    }
    if (c.state == kAccept || c.state == kBelow) {
      kept.push_back(c);
      continue;
    }
    const GbnfNetwork::State& state = network_.states[c.state];
    if (!state.edges.empty()) kept.push_back(c);
    for (const uint32_t to : state.jumps) visit({to, c.stack});
    for (const auto& call : state.calls) {
      const uint32_t stack = push(call.to, c.stack);
      if (stacks_[stack].depth <= kStackDepthMax) visit({network_.starts[call.rule], stack});
    }
    if (state.final) {
      if (c.stack == kBottom)
        visit({kAccept, kBottom});
      else if (c.stack == kMark)
        visit({kBelow, kMark});
      else
        visit({stacks_[c.stack].back, stacks_[c.stack].parent});
    }
  }
  return intern(std::move(kept));
}

GbnfWorkspace::SetId GbnfWorkspace::intern(std::vector<Config> configs) {
  if (configs.empty()) return 0;
  std::sort(configs.begin(), configs.end(), [](const Config& a, const Config& b) {
    return a.stack != b.stack ? a.stack < b.stack : a.state < b.state;
  });
  std::string key(reinterpret_cast<const char*>(configs.data()), configs.size() * sizeof(Config));
  const auto [found, is_new] = set_ids_.try_emplace(std::move(key), static_cast<SetId>(sets_.size()));
  if (is_new) {
    configs_ += configs.size();
    sets_.push_back(std::move(configs));
  }
  return found->second;
}

GbnfWorkspace::SetId GbnfWorkspace::step(SetId set, uint8_t byte) {
  if (set == 0) return 0;
  const uint64_t key = uint64_t{set} << 8 | byte;
  if (const auto found = steps_.find(key); found != steps_.end()) return spend(1) ? found->second : 0;
  std::vector<Config> to;
  for (const Config& c : sets_[set]) {
    if (c.state >= kBelow) continue;
    if (!spend(1)) return 0;
    for (const GbnfNetwork::Edge& edge : network_.states[c.state].edges)
      if (edge.first <= byte && byte <= edge.last) to.push_back({edge.to, c.stack});
  }
  const SetId result = to.empty() ? 0 : closed(std::move(to));
  if (!exhausted_) steps_[key] = result;
  return result;
}

bool GbnfWorkspace::has(SetId set, uint32_t state) const {
  return std::any_of(sets_[set].begin(), sets_[set].end(), [&](const Config& c) { return c.state == state; });
}

GbnfWorkspace::SetId GbnfWorkspace::taken(const GbnfWorkspace& from, SetId set) {
  std::vector<Config> configs;
  std::unordered_map<uint32_t, uint32_t> known{{kBottom, kBottom}, {kMark, kMark}};
  for (Config c : from.sets_[set]) {
    std::vector<uint32_t> chain;
    uint32_t stack = c.stack;
    for (; !known.count(stack); stack = from.stacks_[stack].parent) chain.push_back(stack);
    for (; !chain.empty(); chain.pop_back())
      known[chain.back()] = push(from.stacks_[chain.back()].back, known[from.stacks_[chain.back()].parent]);
    configs.push_back({c.state, known[c.stack]});
  }
  return intern(std::move(configs));
}

}  // namespace butterfly::model::grammar
