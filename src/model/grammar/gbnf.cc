#include "model/grammar/gbnf.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>

#include "model/grammar/gbnf_workspace.h"

namespace butterfly::model::grammar {

namespace {

constexpr uint64_t kWorkMax = 20'000'000;  // of one call; about half a second, beside the steps
constexpr size_t kTopsMax = 128;           // remembered
constexpr size_t kTopsBytesMax = size_t{16} << 20;
using SetId = GbnfWorkspace::SetId;

// What tokens do from some states, whatever the stack below them is: the same for every text that comes to
// these states, so it is computed once.
struct Top {
  TokenBits inside;  // fit without asking what is below, or end there
  TokenTrie below;   // rests of tokens that go on below, with the tokens
  size_t bytes() const { return inside.size() * sizeof(uint64_t) + below.bytes(); }
};

class Gbnf : public CompiledGrammar, public std::enable_shared_from_this<Gbnf> {
 public:
  Gbnf(GbnfNetwork network, std::shared_ptr<const TokenIndex> index)
      : network_(std::move(network)),
        index_(std::move(index)),
        workspace_(std::make_shared<GbnfWorkspace>(network_)) {
    for (const GbnfNetwork::State& state : network_.states)
      network_bytes_ += sizeof(state) + state.edges.size() * sizeof(GbnfNetwork::Edge) +
                        state.jumps.size() * 4 + state.calls.size() * sizeof(GbnfNetwork::Call);
    count_bytes();
  }

  std::unique_ptr<TokenConstraint> start() const override;
  size_t bytes() const override { return bytes_; }

  // What follows is called with the lock held.
  std::mutex& mutex() const { return mutex_; }
  const TokenIndex& index() const { return *index_; }
  // The workspace for a call, a new one when it has become large.
  std::shared_ptr<GbnfWorkspace> workspace() const {
    if (workspace_->large()) workspace_ = std::make_shared<GbnfWorkspace>(network_);
    return workspace_;
  }

  // After a call, so that bytes() need not wait for one.
  void count_bytes() const { bytes_ = network_bytes_ + tops_bytes_ + workspace_->bytes(); }

  // Adds the tokens that may follow. False: too much work.
  bool mask(GbnfWorkspace& work, SetId set, std::span<uint64_t> bits) const {
    const std::vector<GbnfWorkspace::Config> configs = work.configs(set);
    for (size_t i = 0; i < configs.size();) {
      const uint32_t stack = configs[i].stack;
      std::vector<uint32_t> states;
      for (; i < configs.size() && configs[i].stack == stack; ++i)
        if (configs[i].state != GbnfWorkspace::kAccept) states.push_back(configs[i].state);
      if (states.empty()) continue;
      const std::shared_ptr<const Top> top = top_of(work, states);
      if (!top) return false;
      for (size_t w = 0; w < bits.size(); ++w) bits[w] |= top->inside[w];
      if (stack == GbnfWorkspace::kBottom) continue;
      std::vector<SetId> sets{work.behind(stack)};
      walk(
          top->below, sets,
          [&](SetId& to, SetId from, uint8_t byte) { return (to = work.step(from, byte)) != 0; },
          [&](const TokenTrie::Node& node, SetId) {
            for (const uint32_t token : top->below.values_at(node)) set_bit(bits, token);
          });
    }
    return !work.exhausted();
  }

 private:
  std::shared_ptr<const Top> top_of(GbnfWorkspace& work, const std::vector<uint32_t>& states) const {
    if (const auto found = tops_.find(states); found != tops_.end()) {
      order_.splice(order_.begin(), order_, found->second.second);
      return found->second.first;
    }
    auto made = compute(work, states);
    if (!made) return nullptr;
    order_.push_front(states);
    tops_[states] = {made, order_.begin()};
    tops_bytes_ += made->bytes();
    while (tops_.size() > kTopsMax || (tops_bytes_ > kTopsBytesMax && tops_.size() > 1)) {
      const auto oldest = tops_.find(order_.back());
      tops_bytes_ -= oldest->second.first->bytes();
      tops_.erase(oldest);
      order_.pop_back();
    }
    return made;
  }

  std::shared_ptr<const Top> compute(GbnfWorkspace& work, const std::vector<uint32_t>& states) const {
    auto top = std::make_shared<Top>();
    top->inside.assign(mask_words(index_->vocab_size()), 0);
    std::vector<GbnfWorkspace::Config> configs;
    for (const uint32_t state : states) configs.push_back({state, GbnfWorkspace::kMark});
    const TokenTrie& trie = index_->trie();
    std::vector<SetId> sets{work.closed(std::move(configs))};
    std::vector<std::pair<size_t, uint16_t>> exits;  // node, bytes used
    walk(
        trie, sets, [&](SetId& to, SetId from, uint8_t byte) { return (to = work.step(from, byte)) != 0; },
        [&](const TokenTrie::Node& node, SetId set) {
          for (const uint32_t token : trie.values_at(node)) set_bit(top->inside, token);
          if (work.has(set, GbnfWorkspace::kBelow))
            exits.emplace_back(&node - trie.nodes().data(), static_cast<uint16_t>(node.depth + 1));
        });
    if (work.exhausted()) return nullptr;
    std::vector<std::pair<std::string_view, uint32_t>> rests;
    for (const auto& [node, used] : exits)
      for (const uint32_t token : trie.values_below(node))
        if (index_->piece(token).size() > used && !(top->inside[token / 64] >> (token % 64) & 1))
          rests.emplace_back(index_->piece(token).substr(used), token);
    top->below = TokenTrie(std::move(rests));
    return top;
  }

  GbnfNetwork network_;
  std::shared_ptr<const TokenIndex> index_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<GbnfWorkspace> workspace_;
  size_t network_bytes_ = 0;
  mutable size_t tops_bytes_ = 0;
  mutable std::atomic<size_t> bytes_{0};
  using Order = std::list<std::vector<uint32_t>>;  // latest first
  mutable Order order_;
  mutable std::map<std::vector<uint32_t>, std::pair<std::shared_ptr<const Top>, Order::iterator>> tops_;
};

class GbnfConstraint : public TokenConstraint {
 public:
  explicit GbnfConstraint(std::shared_ptr<const Gbnf> grammar) : grammar_(std::move(grammar)) {
    const std::scoped_lock lock(grammar_->mutex());
    workspace_ = grammar_->workspace();
    workspace_->allow(kWorkMax);
    set_ = workspace_->start();
    can_end_ = workspace_->can_end(set_);
  }

  void mask(std::span<uint64_t> allowed) override {
    const std::scoped_lock lock(grammar_->mutex());
    mask_locked(allowed);
  }

  bool accept(int32_t token) override {
    const TokenIndex& index = grammar_->index();
    if (token < 0 || static_cast<size_t>(token) >= index.vocab_size()) return false;
    const std::string_view piece = index.piece(static_cast<uint32_t>(token));
    if (piece.empty() || index.ends_text(static_cast<uint32_t>(token))) return false;
    const std::scoped_lock lock(grammar_->mutex());
    move_on();
    SetId next = set_;
    for (const char c : piece) next = workspace_->step(next, static_cast<uint8_t>(c));
    if (next == 0) return workspace_->exhausted() && lost_behind(static_cast<uint32_t>(token));
    set_ = next;
    can_end_ = workspace_->can_end(set_);
    return true;
  }

  bool can_end() const override { return can_end_; }
  std::string why_dead_end() const override {
    return too_ambiguous_ ? "its grammar leaves too many ways open to be followed; write it with fewer "
                            "alternatives that begin alike"
                          : TokenConstraint::why_dead_end();
  }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<GbnfConstraint>(*this); }

 private:
  void mask_locked(std::span<uint64_t> allowed) {
    move_on();
    std::fill(allowed.begin(), allowed.end(), 0);
    if (can_end_)
      for (const uint32_t token : grammar_->index().ends()) set_bit(allowed, token);
    // A grammar too ambiguous to follow ends the text.
    if (!grammar_->mask(*workspace_, set_, allowed)) {
      std::fill(allowed.begin(), allowed.end(), 0);
      too_ambiguous_ = true;
    }
    grammar_->count_bytes();
  }

  // The text behind the token is too ambiguous to follow, though a mask, which looks at fewer stacks, may
  // allow the token: then the text ends with it.
  bool lost_behind(uint32_t token) {
    TokenBits bits(mask_words(grammar_->index().vocab_size()), 0);
    mask_locked(bits);
    if (!(bits[token / 64] >> (token % 64) & 1)) return false;
    set_ = 0;
    can_end_ = false;
    too_ambiguous_ = true;
    return true;
  }

  // Into the grammar's present workspace.
  void move_on() {
    auto workspace = grammar_->workspace();
    if (workspace != workspace_) {
      set_ = workspace->taken(*workspace_, set_);
      workspace_ = std::move(workspace);
    }
    workspace_->allow(kWorkMax);
  }

  std::shared_ptr<const Gbnf> grammar_;
  std::shared_ptr<GbnfWorkspace> workspace_;
  SetId set_ = 0;
  bool can_end_ = false;
  bool too_ambiguous_ = false;
};

std::unique_ptr<TokenConstraint> Gbnf::start() const {
  return std::make_unique<GbnfConstraint>(shared_from_this());
}

}  // namespace

std::shared_ptr<const CompiledGrammar> gbnf_grammar(std::string_view text,
                                                    std::shared_ptr<const TokenIndex> index) {
  return std::make_shared<const Gbnf>(build_network(parse_gbnf(text)), std::move(index));
}

}  // namespace butterfly::model::grammar
