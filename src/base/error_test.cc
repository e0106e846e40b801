#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "base/checked.h"
#include "base/function_ref.h"
#include "base/result.h"

namespace butterfly {
namespace {

TEST(Error, CarriesCodeAndText) {
  try {
    fail(Errc::kCorrupt, "{}: magic is {:08x}", "model.gguf", 0x1234);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kCorrupt);
    EXPECT_STREQ(error.what(), "model.gguf: magic is 00001234");
  }
}

TEST(Error, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(Errc::kCancelled); ++code)
    EXPECT_NE(errc_name(static_cast<Errc>(code)), "unknown") << code;
}

TEST(Result, HoldsAValueOrAReason) {
  const Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  Result<int> bad(Errc::kTimeout, "node 3 did not answer in 5 s");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.status().code(), Errc::kTimeout);
  EXPECT_THROW(std::move(bad).or_throw(), Error);
  EXPECT_EQ(*Result<std::unique_ptr<int>>(std::make_unique<int>(5)).or_throw(), 5);
}

TEST(Result, LookingAtAMissingValueIsOurMistake) {
  Result<int> bad(Errc::kTimeout, "late");
  EXPECT_DEATH(static_cast<void>(*bad), "late");
  EXPECT_DEATH(Result<int>{Status{}}, "ok Status");
}

TEST(Status, OkThrowsNothing) {
  EXPECT_NO_THROW(Status().or_throw());
  EXPECT_THROW(Status(Errc::kPeerLost, "gone").or_throw(), Error);
}

TEST(Check, NamesPlaceConditionAndText) {
  const int found = 3;
  BF_CHECK(found == 3) << "not evaluated";
  EXPECT_DEATH(BF_CHECK(found == 4) << "found " << found, "error_test.cc.*check failed: found == 4 found 3");
}

TEST(Checked, ArithmeticThatDoesNotFitHasNoAnswer) {
  EXPECT_EQ(checked_add(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), UINT64_MAX - UINT32_MAX);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_round_up(0, 64), 0u);
  EXPECT_EQ(checked_round_up(65, 64), 128u);
  EXPECT_EQ(checked_round_up(UINT64_MAX - 62, 64), std::nullopt);
  EXPECT_EQ(checked_round_up(UINT64_MAX - 63, 64), UINT64_MAX - 63);
  EXPECT_EQ(round_up(7, 5), 10u);
  EXPECT_EQ(ceil_div(10, 5), 2u);
  EXPECT_EQ(ceil_div(11, 5), 3u);
}

int twice(int x) { return 2 * x; }

TEST(FunctionRef, CallsWhatItBorrows) {
  int calls = 0;
  const auto count = [&calls](int by) { return calls += by; };
  const FunctionRef<int(int)> ref = count;
  const FunctionRef<int(int)> copy = ref;
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(copy(3), 5);
  const auto call = [](FunctionRef<int(int)> fn) { return fn(21); };
  EXPECT_EQ(call(twice), 42);
  EXPECT_EQ(FunctionRef<std::string(std::string)>([](std::string s) { return s + "!"; })("a"), "a!");
}

}  // namespace
}  // namespace butterfly
