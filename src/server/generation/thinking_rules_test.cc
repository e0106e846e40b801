#include "server/generation/thinking_rules.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

// Nothing but this letter.
class OnlyX : public model::TokenConstraint {
 public:
  explicit OnlyX(int32_t x) : x_(x) {}
  void mask(std::span<uint64_t> allowed) override {
    std::fill(allowed.begin(), allowed.end(), 0);
    allowed[static_cast<size_t>(x_) / 64] |= uint64_t{1} << (x_ % 64);
  }
  bool accept(int32_t token) override { return token == x_; }
  bool can_end() const override { return false; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<OnlyX>(*this); }

 private:
  int32_t x_;
};

class ThinkingRulesTest : public ::testing::Test {
 protected:
  ThinkingRulesTest() {
    testing::write_test_model(folder / "m.gguf");
    const model::ModelFile file = model::open_model(folder / "m.gguf", {});
    tokenizer = model::make_tokenizer(file.metadata());
  }
  int32_t id(char c) const {
    const std::string text(1, c);
    for (int32_t i = 0; i < static_cast<int32_t>(tokenizer->vocab_size()); ++i)
      if (tokenizer->piece(i) == text) return i;
    ADD_FAILURE() << "no token " << c;
    return 0;
  }
  bool allows(model::TokenConstraint& rules, int32_t token) const {
    std::vector<uint64_t> mask(model::mask_words(tokenizer->vocab_size()));
    rules.mask(mask);
    return mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1;
  }
  void say(model::TokenConstraint& rules, std::string_view text) const {
    for (const char c : text) ASSERT_TRUE(rules.accept(id(c))) << c;
  }

  butterfly::testing::TempDir folder;
  std::unique_ptr<model::Tokenizer> tokenizer;
  const ReasoningMarks marks{"<think>", "</think>"};
};

TEST_F(ThinkingRulesTest, OtherRulesBeginBehindIt) {
  const auto rules = thinking_rules(*tokenizer, {marks, true, {}}, std::make_unique<OnlyX>(id('x')));
  say(*rules, "a </b");
  EXPECT_TRUE(allows(*rules, id('y')));
  EXPECT_FALSE(rules->can_end());
  EXPECT_FALSE(allows(*rules, *tokenizer->eos())) << "the answer is still to come";
  say(*rules, "</think>");
  EXPECT_FALSE(allows(*rules, id('y')));
  EXPECT_TRUE(allows(*rules, id('x')));
  EXPECT_FALSE(rules->accept(id('y')));
}

TEST_F(ThinkingRulesTest, ABudgetEndsInTheClosingMark) {
  const auto rules = thinking_rules(*tokenizer, {marks, true, 3}, nullptr);
  say(*rules, "abc");
  std::string said;
  for (int i = 0; i < 20 && !allows(*rules, id('q')); ++i)
    for (int32_t token = 0; token < static_cast<int32_t>(tokenizer->vocab_size()); ++token)
      if (allows(*rules, token)) {
        said += tokenizer->piece(token);
        ASSERT_TRUE(rules->accept(token));
        break;
      }
  EXPECT_NE(said.find("</think>"), said.npos) << said;
  EXPECT_TRUE(rules->can_end());
}

TEST_F(ThinkingRulesTest, WhoDoesNotBeginToThinkIsLeftAlone) {
  const auto rules = thinking_rules(*tokenizer, {marks, false, 2}, nullptr);
  say(*rules, "Hello <think> and so on");
  EXPECT_TRUE(allows(*rules, id('q')));
  const auto thinker = thinking_rules(*tokenizer, {marks, false, 2}, nullptr);
  say(*thinker, "<think>ab");
  EXPECT_FALSE(allows(*thinker, id('q')));
  const auto copy = thinker->clone();
  EXPECT_FALSE(allows(*copy, id('q')));
}

}  // namespace
}  // namespace butterfly::server
