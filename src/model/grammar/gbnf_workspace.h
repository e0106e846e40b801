// Follows texts under a grammar: sets of (state, stack of places to return to), each kept once.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/grammar/gbnf_network.h"

namespace butterfly::model::grammar {

// Stacks and sets get numbers, so that equal ones are the same and steps are remembered. It only grows: its
// owner starts a new one when it is large, and takes along what is still needed. One thread at a time.
class GbnfWorkspace {
 public:
  using SetId = uint32_t;  // 0: empty, no text fits
  struct Config {
    uint32_t state, stack;
    bool operator==(const Config&) const = default;
  };
  struct Stack {
    uint32_t back = 0, parent = 0, depth = 0;
  };
  static constexpr uint32_t kBottom = 0;       // the stack below "root"
  static constexpr uint32_t kMark = 1;         // a stack of which only this is known
  static constexpr uint32_t kAccept = ~0u;     // instead of a state: the text is whole
  static constexpr uint32_t kBelow = ~0u - 1;  // instead of a state: goes on below the mark

  explicit GbnfWorkspace(const GbnfNetwork& network);

  SetId start() { return closed({{network_.root, kBottom}}); }
  SetId step(SetId set, uint8_t byte);
  // What the configurations lead to without a byte.
  SetId closed(std::vector<Config> configs);
  SetId behind(uint32_t stack) { return closed({{stacks_[stack].back, stacks_[stack].parent}}); }
  // The same set in this workspace.
  SetId taken(const GbnfWorkspace& from, SetId set);

  const std::vector<Config>& configs(SetId set) const { return sets_[set]; }
  bool has(SetId set, uint32_t state) const;
  bool can_end(SetId set) const { return has(set, kAccept); }

  // Work that the calls until the next one may do; when it is used up, steps lead to the empty set.
  void allow(uint64_t work) {
    work_ = work;
    exhausted_ = false;
  }
  bool exhausted() const { return exhausted_; }
  bool large() const {
    return sets_.size() > 30'000 || configs_ > 1'000'000 || stacks_.size() > 100'000 ||
           steps_.size() > 300'000;
  }
  // In memory, about: what each entry takes with its place in a table.
  size_t bytes() const {
    return sets_.size() * 96 + configs_ * 2 * sizeof(Config) + stacks_.size() * 56 + steps_.size() * 48;
  }

 private:
  uint32_t push(uint32_t back, uint32_t parent);
  SetId intern(std::vector<Config> configs);
  bool spend(uint64_t work);

  const GbnfNetwork& network_;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> stack_ids_;
  std::vector<std::vector<Config>> sets_;
  size_t configs_ = 0;  // in all sets
  std::unordered_map<std::string, SetId> set_ids_;
  std::unordered_map<uint64_t, SetId> steps_;  // (set, byte) -> set
  uint64_t work_ = 0;
  bool exhausted_ = false;
};

}  // namespace butterfly::model::grammar
