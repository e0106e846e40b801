#include "model/grammar/json_constraint.h"

#include <algorithm>

namespace butterfly::model::grammar {

namespace {

class JsonConstraint : public TokenConstraint {
 public:
  explicit JsonConstraint(std::shared_ptr<const JsonMasker> masker)
      : masker_(std::move(masker)), state_(masker_->matcher().start()) {}

  void mask(std::span<uint64_t> allowed) override {
    std::fill(allowed.begin(), allowed.end(), 0);
    masker_->mask(state_, allowed);
  }

  bool accept(int32_t token) override {
    const TokenIndex& index = masker_->index();
    if (token < 0 || static_cast<size_t>(token) >= index.vocab_size()) return false;
    const std::string_view piece = index.piece(static_cast<uint32_t>(token));
    if (piece.empty() || index.ends_text(static_cast<uint32_t>(token))) return false;
    JsonState next = state_;
    for (const char c : piece)
      if (!masker_->matcher().step(next, static_cast<uint8_t>(c))) return false;
    state_ = std::move(next);
    return true;
  }

  bool can_end() const override { return masker_->matcher().can_end(state_); }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<JsonConstraint>(*this); }

 private:
  std::shared_ptr<const JsonMasker> masker_;
  JsonState state_;
};

class JsonGrammar : public CompiledGrammar {
 public:
  explicit JsonGrammar(std::shared_ptr<const JsonMasker> masker) : masker_(std::move(masker)) {}
  std::unique_ptr<TokenConstraint> start() const override {
    return std::make_unique<JsonConstraint>(masker_);
  }
  size_t bytes() const override { return masker_->matcher().bytes(); }

 private:
  std::shared_ptr<const JsonMasker> masker_;
};

}  // namespace

std::shared_ptr<const CompiledGrammar> json_grammar(std::shared_ptr<const JsonMasker> masker) {
  return std::make_shared<JsonGrammar>(std::move(masker));
}

}  // namespace butterfly::model::grammar
