#include "model/grammar/text_grammar.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/dfa.h"
#include "model/grammar/limits.h"
#include "model/grammar/regex.h"

namespace butterfly::model::grammar {
namespace {

constexpr size_t kMasksMax = 256;  // remembered

// Masks depend on the automaton's state alone, so they are computed once each; a lock guards them.
class TextGrammar : public CompiledGrammar, public std::enable_shared_from_this<TextGrammar> {
 public:
  TextGrammar(Dfa dfa, std::shared_ptr<const TokenIndex> index)
      : dfa_(std::move(dfa)), index_(std::move(index)) {}

  std::unique_ptr<TokenConstraint> start() const override;
  size_t bytes() const override {
    const std::scoped_lock lock(mutex_);
    return dfa_.next.size() * sizeof(uint32_t) + dfa_.states() * 8 +
           masks_.size() * mask_words(index_->vocab_size()) * sizeof(uint64_t);
  }

  const Dfa& dfa() const { return dfa_; }
  const TokenIndex& index() const { return *index_; }

  std::shared_ptr<const TokenBits> mask(uint32_t state) const {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = masks_.find(state); found != masks_.end()) return found->second;
    }
    auto made = std::make_shared<TokenBits>(mask_words(index_->vocab_size()), 0);
    if (dfa_.label[state] != 0)
      for (const uint32_t token : index_->ends()) set_bit(*made, token);
    std::vector<uint32_t> states{state};
    walk(
        index_->trie(), states,
        [&](uint32_t& to, uint32_t from, uint8_t byte) { return (to = dfa_.step(from, byte)) != 0; },
        [&](const TokenTrie::Node& node, uint32_t) {
          for (const uint32_t token : index_->trie().values_at(node)) set_bit(*made, token);
        });
    const std::scoped_lock lock(mutex_);
    if (masks_.size() >= kMasksMax) masks_.clear();
    masks_[state] = made;
    return made;
  }

 private:
  const Dfa dfa_;
  const std::shared_ptr<const TokenIndex> index_;
  mutable std::mutex mutex_;
  mutable std::map<uint32_t, std::shared_ptr<const TokenBits>> masks_;
};

class TextConstraint : public TokenConstraint {
 public:
  explicit TextConstraint(std::shared_ptr<const TextGrammar> grammar)
      : grammar_(std::move(grammar)), state_(grammar_->dfa().start) {}

  void mask(std::span<uint64_t> allowed) override {
    const auto bits = grammar_->mask(state_);
    std::copy(bits->begin(), bits->end(), allowed.begin());
  }
  bool accept(int32_t token) override {
    const TokenIndex& index = grammar_->index();
    if (token < 0 || static_cast<size_t>(token) >= index.vocab_size()) return false;
    const std::string_view piece = index.piece(static_cast<uint32_t>(token));
    if (piece.empty() || index.ends_text(static_cast<uint32_t>(token))) return false;
    const uint32_t to = grammar_->dfa().run(state_, piece);
    if (to == 0) return false;
    state_ = to;
    return true;
  }
  bool can_end() const override { return grammar_->dfa().label[state_] != 0; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<TextConstraint>(*this); }

 private:
  std::shared_ptr<const TextGrammar> grammar_;
  uint32_t state_;
};

std::unique_ptr<TokenConstraint> TextGrammar::start() const {
  return std::make_unique<TextConstraint>(shared_from_this());
}

}  // namespace

std::shared_ptr<const CompiledGrammar> regex_grammar(std::string_view expression,
                                                     std::shared_ptr<const TokenIndex> index) {
  if (expression.size() > kSourceBytesMax)
    fail(Errc::kOutOfMemory, "regex: {} bytes, at most {}", expression.size(), kSourceBytesMax);
  const CompileBudget budget;
  Dfa dfa = regex_dfa("^(?:" + std::string(expression) + ")$");
  if (dfa.empty()) fail(Errc::kInvalidArgument, "regex: no text matches it");
  return std::make_shared<const TextGrammar>(std::move(dfa), std::move(index));
}

}  // namespace butterfly::model::grammar
