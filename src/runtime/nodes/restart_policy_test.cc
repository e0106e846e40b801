#include "runtime/nodes/restart_policy.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(RestartPolicyTest, WaitsLongerEachTimeAndGivesUp) {
  RestartPolicy policy({.in_a_row_max = 6, .first = milliseconds(500), .longest = seconds(5)});
  for (const Duration expected : {milliseconds(500), milliseconds(1000), milliseconds(2000),
                                  milliseconds(4000), milliseconds(5000), milliseconds(5000)})
    EXPECT_EQ(policy.ended(seconds(3)), expected);
  EXPECT_EQ(policy.in_a_row(), 6u);
  EXPECT_EQ(policy.ended(seconds(3)), std::nullopt);
  EXPECT_EQ(policy.ended(seconds(3)), std::nullopt);
  EXPECT_EQ(policy.in_a_row(), 6u);
}

TEST(RestartPolicyTest, OneThatLivedForAWhileBeginsAnew) {
  RestartPolicy policy({.in_a_row_max = 2, .first = milliseconds(500), .proved = minutes(1)});
  EXPECT_EQ(policy.ended(seconds(1)), milliseconds(500));
  EXPECT_EQ(policy.ended(seconds(59)), seconds(1));
  EXPECT_EQ(policy.ended(minutes(1)), milliseconds(500));
  EXPECT_EQ(policy.in_a_row(), 1u);
  EXPECT_EQ(policy.ended(seconds(1)), seconds(1));
  EXPECT_EQ(policy.ended(seconds(1)), std::nullopt);
}

TEST(RestartPolicyTest, NeverMeansNever) {
  RestartPolicy policy({.in_a_row_max = 0});
  EXPECT_EQ(policy.ended(seconds(1)), std::nullopt);
  EXPECT_EQ(policy.ended(minutes(9)), std::nullopt);
}

TEST(RestartPolicyTest, ManyRestartsDoNotOverflow) {
  RestartPolicy policy({.in_a_row_max = 1000, .first = milliseconds(500), .longest = seconds(10)});
  for (int i = 0; i < 1000; ++i) {
    const auto wait = policy.ended(Duration{});
    ASSERT_TRUE(wait.has_value());
    EXPECT_GE(*wait, milliseconds(500));
    EXPECT_LE(*wait, seconds(10));
  }
}

}  // namespace
}  // namespace butterfly::runtime
