#include "server/generation/thinking_rules.h"

#include <algorithm>

#include "server/tools/call_text.h"

namespace butterfly::server {
namespace {

class ThinkingRules : public model::TokenConstraint {
 public:
  ThinkingRules(const model::Tokenizer& tokenizer, const ThinkingOptions& options,
                std::unique_ptr<model::TokenConstraint> then)
      : tokenizer_(tokenizer),
        options_(options),
        then_(std::move(then)),
        place_(options.inside ? Place::kInside : Place::kBefore),
        closing_(tokenizer.encode(
            options.marks.close, {.add_bos = false, .add_eos = false, .parse_special = true, .plain = {}})) {}

  void mask(std::span<uint64_t> allowed) override {
    if (place_ == Place::kAfter && then_ != nullptr) return then_->mask(allowed);
    std::fill(allowed.begin(), allowed.end(), 0);
    if (must_close()) {
      allow(allowed, closing_[closed_]);
      return;
    }
    const auto vocab = static_cast<int32_t>(tokenizer_.vocab_size());
    const bool may_end = can_end();
    for (int32_t token = 0; token < vocab; ++token)
      if (may_end || !tokenizer_.is_end_of_generation(token)) allow(allowed, token);
  }

  bool accept(int32_t token) override {
    if (token < 0 || static_cast<size_t>(token) >= tokenizer_.vocab_size()) return false;
    if (place_ == Place::kAfter) return then_ == nullptr || then_->accept(token);
    if (must_close()) {
      if (token != closing_[closed_]) return false;
      ++closed_;
    }
    ++tokens_;
    const std::string_view piece = tokenizer_.piece(token);
    text_ += piece.empty() ? tokenizer_.token_text(token) : piece;
    if (place_ == Place::kBefore) begin();
    if (place_ == Place::kInside) {
      if (text_.find(options_.marks.close) != text_.npos || closed_ == closing_.size()) {
        place_ = Place::kAfter;
        text_.clear();
      } else if (text_.size() > options_.marks.close.size()) {
        text_.erase(0, text_.size() - options_.marks.close.size());
      }
    }
    return true;
  }

  bool can_end() const override {
    return then_ == nullptr ? !must_close() : place_ == Place::kAfter && then_->can_end();
  }
  std::string why_dead_end() const override {
    return then_ != nullptr ? then_->why_dead_end() : TokenConstraint::why_dead_end();
  }
  std::unique_ptr<TokenConstraint> clone() const override {
    auto copy =
        std::make_unique<ThinkingRules>(tokenizer_, options_, then_ == nullptr ? nullptr : then_->clone());
    copy->place_ = place_;
    copy->text_ = text_;
    copy->tokens_ = tokens_;
    copy->closed_ = closed_;
    return copy;
  }

 private:
  enum class Place { kBefore, kInside, kAfter };

  static void allow(std::span<uint64_t> allowed, int32_t token) {
    allowed[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  }

  bool must_close() const {
    return place_ == Place::kInside && !closing_.empty() &&
           (closed_ > 0 || (options_.tokens_max && tokens_ >= *options_.tokens_max));
  }

  void begin() {
    const std::string_view seen = trimmed(text_);
    if (seen.starts_with(options_.marks.open)) {
      place_ = Place::kInside;
      tokens_ = 0;
    } else if (!seen.empty() && begun(seen, options_.marks.open) != seen.size()) {
      place_ = Place::kAfter;  // it does not reason
    }
  }

  const model::Tokenizer& tokenizer_;
  const ThinkingOptions options_;
  const std::unique_ptr<model::TokenConstraint> then_;
  Place place_;
  const std::vector<int32_t> closing_;
  std::string text_;  // its end, as far as a mark may begin there
  size_t tokens_ = 0;
  size_t closed_ = 0;  // tokens of the closing mark that were asked for
};

}  // namespace

std::unique_ptr<model::TokenConstraint> thinking_rules(const model::Tokenizer& tokenizer,
                                                       const ThinkingOptions& options,
                                                       std::unique_ptr<model::TokenConstraint> then) {
  return std::make_unique<ThinkingRules>(tokenizer, options, std::move(then));
}

}  // namespace butterfly::server
