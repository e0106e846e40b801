// Numbers as texts, against arithmetic.
#include "model/grammar/number_dfa.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"

namespace butterfly::model::grammar {
namespace {

TEST(NumberDfa, WhatIsANumber) {
  for (const char* good : {"0", "-0", "12", "-1.50", "1e5", "1E-7", "0.0e+0"})
    EXPECT_TRUE(any_number().match(good)) << good;
  for (const char* bad : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1 "})
    EXPECT_FALSE(any_number().match(bad)) << bad;
  for (const char* good : {"0", "-12", "1.0", "3.000", "1e2", "5E+10"})
    EXPECT_TRUE(any_integer().match(good)) << good;
  for (const char* bad : {"1.5", "1e-2", "0.10"}) EXPECT_FALSE(any_integer().match(bad)) << bad;
}

TEST(NumberDfa, DecimalsAreExact) {
  EXPECT_EQ(parse_decimal("1e3").whole, "1000");
  EXPECT_EQ(parse_decimal("12.50e-1").whole, "1");
  EXPECT_EQ(parse_decimal("12.50e-1").fraction, "25");
  EXPECT_EQ(parse_decimal("-0.0"), Decimal{});
  EXPECT_EQ(compare(parse_decimal("0.1"), parse_decimal("0.10")), 0);
  EXPECT_EQ(compare(parse_decimal("-2"), parse_decimal("1")), -1);
  EXPECT_EQ(compare(parse_decimal("10"), parse_decimal("9.9")), 1);
  EXPECT_THROW(parse_decimal("1e9999"), Error);
}

TEST(NumberDfa, Multiples) {
  const Dfa cents = multiple_dfa(parse_decimal("0.01"));
  for (const char* good : {"0", "1", "1.5", "1.25", "-3.10", "2.5000"})
    EXPECT_TRUE(cents.match(good)) << good;
  for (const char* bad : {"1.255", "0.001"}) EXPECT_FALSE(cents.match(bad)) << bad;
  EXPECT_THROW(multiple_dfa(parse_decimal("123456789")), Error);
}

TEST(NumberDfa, ComparedWithZeroExponentsAreFine) {
  EXPECT_TRUE(number_dfa(Relation::kAtLeast, {}).match("1e-7"));
  EXPECT_FALSE(number_dfa(Relation::kAtLeast, {}).match("-1e-7"));
  EXPECT_TRUE(number_dfa(Relation::kAtLeast, {}).match("-0e5"));
  EXPECT_FALSE(number_dfa(Relation::kGreater, {}).match("0.00e9"));
}

// A number of hundredths, as a text with a random number of zeros behind.
std::string text_of(int hundredths, int zeros) {
  std::string text = fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", std::abs(hundredths) / 100,
                                 std::abs(hundredths) % 100);
  return text + std::string(static_cast<size_t>(zeros), '0');
}

RC_GTEST_PROP(NumberDfa, ComparesLikeNumbers, ()) {
  const int a = *rc::gen::inRange(-20'000, 20'000);
  const int b = *rc::gen::oneOf(rc::gen::inRange(-20'000, 20'000), rc::gen::inRange(a - 3, a + 3));
  const Decimal bound = parse_decimal(text_of(b, 0));
  std::string text = text_of(a, *rc::gen::inRange(0, 3));
  if (a % 100 == 0 && *rc::gen::arbitrary<bool>()) text.resize(text.find('.'));
  RC_ASSERT((number_dfa(Relation::kLess, bound).match(text) != 0) == (a < b));
  RC_ASSERT((number_dfa(Relation::kAtMost, bound).match(text) != 0) == (a <= b));
  RC_ASSERT((number_dfa(Relation::kAtLeast, bound).match(text) != 0) == (a >= b));
  RC_ASSERT((number_dfa(Relation::kGreater, bound).match(text) != 0) == (a > b));
  RC_ASSERT((number_dfa(Relation::kEqual, bound).match(text) != 0) == (a == b));
  if (b > 0 && b < 1000) RC_ASSERT((multiple_dfa(bound).match(text) != 0) == (a % b == 0));
}

}  // namespace
}  // namespace butterfly::model::grammar
