#include "server/generation/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The refusal, or "" if it was taken.
std::string refusal(Quotas& quotas, uint64_t owner, TimePoint now, int* wait = nullptr) {
  try {
    quotas.begin(owner, now);
    return "";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 429);
    if (wait != nullptr) *wait = error.retry_after_s;
    return error.what();
  }
}

TEST(Quotas, RequestsAMinutePassAsABurstAndThenSteadily) {
  const auto quotas = std::make_shared<Quotas>(QuotaOptions{.requests_per_minute = 6});
  const TimePoint now{1h};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(refusal(*quotas, 1, now), "");
  int wait = 0;
  EXPECT_THAT(refusal(*quotas, 1, now, &wait), HasSubstr("6 requests a minute"));
  EXPECT_EQ(wait, 10);
  EXPECT_EQ(refusal(*quotas, 2, now), "") << "another key's are its own";
  EXPECT_EQ(refusal(*quotas, 1, now + 10s), "");
  EXPECT_NE(refusal(*quotas, 1, now + 10s), "");
}

TEST(Quotas, TokensAreCountedWhenTheyAreThere) {
  const auto quotas = std::make_shared<Quotas>(QuotaOptions{.tokens_per_minute = 600});
  const TimePoint now{1h};
  quotas->begin(1, now)->spend(900);
  int wait = 0;
  EXPECT_THAT(refusal(*quotas, 1, now, &wait), HasSubstr("600 tokens a minute"));
  EXPECT_EQ(wait, 31);
  EXPECT_EQ(refusal(*quotas, 1, now + 31s), "");
}

TEST(Quotas, RequestsAtOnceEndWithTheirLeases) {
  const auto quotas = std::make_shared<Quotas>(QuotaOptions{.requests_at_once = 2});
  const TimePoint now{1h};
  auto first = quotas->begin(1, now), second = quotas->begin(1, now);
  EXPECT_THAT(refusal(*quotas, 1, now), HasSubstr("at most 2 at once"));
  first.reset();
  EXPECT_EQ(refusal(*quotas, 1, now), "");
  EXPECT_EQ(std::make_shared<Quotas>(QuotaOptions{})->begin(1, now), nullptr) << "nothing is bounded";
}

}  // namespace
}  // namespace butterfly::server
