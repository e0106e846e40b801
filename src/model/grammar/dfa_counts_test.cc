#include "model/grammar/dfa_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/grammar/regex.h"

namespace butterfly::model::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool any_label(uint32_t) { return true; }

uint64_t count(const char* expression) {
  const Dfa dfa = regex_dfa(expression);
  return text_counts(dfa, any_label)[dfa.start];
}

TEST(DfaCounts, FiniteAndNot) {
  EXPECT_EQ(count("^[ab]?c$"), 3u);
  EXPECT_EQ(count("^[0-9]{1,3}$"), 1110u);
  EXPECT_EQ(count("^a*$"), kUnbounded);
  EXPECT_EQ(count("a"), kUnbounded);
  EXPECT_EQ(count("^[a-z]{40}$"), kUnbounded) << "26^40 does not fit";
}

TEST(DfaCounts, OfOneLabel) {
  const std::string names[] = {"b", "ba"};
  const Dfa literals = literal_dfa(names), all = regex_dfa("^b+a?$");
  const DfaFactor factors[] = {{&all, true}, {&literals, false}};
  // 1: a name, 2: another text.
  const Dfa both = product(factors, [](std::span<const uint32_t> l) {
    return l[0] == 0 ? 0u : l[1] != 0 ? 1u : 2u;
  });
  const auto is = [](uint32_t wanted) { return [wanted](uint32_t label) { return label == wanted; }; };
  EXPECT_EQ(text_counts(both, is(1))[both.start], 2u);
  EXPECT_EQ(text_counts(both, is(2))[both.start], kUnbounded);
  EXPECT_THAT(few_texts(both, is(1), 8), ElementsAre("b", "ba"));
  EXPECT_THAT(few_texts(both, is(1), 1), IsEmpty());
  EXPECT_THAT(few_texts(both, is(2), 8), IsEmpty());
}

}  // namespace
}  // namespace butterfly::model::grammar
