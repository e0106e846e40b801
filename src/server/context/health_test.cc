#include "server/context/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WhyStalled, IsAboutProgressAndNotAboutLoad) {
  const TimePoint now{100s};
  runtime::EngineStats stats;
  EXPECT_THAT(why_stalled(stats, now), IsEmpty()) << "idle";
  stats.running = 16;
  stats.waiting = 64;
  stats.busy_since = now - 2s;
  EXPECT_THAT(why_stalled(stats, now), IsEmpty());
  stats.busy_since = now - 3s;
  EXPECT_THAT(why_stalled(stats, now), HasSubstr("no step has ended for 3.0 s"));
  // A machine on which steps take a second is slow, not stuck.
  stats.steps = 100;
  stats.step_time = 100s;
  EXPECT_THAT(why_stalled(stats, now), IsEmpty());
  stats.busy_since = now - 21s;
  EXPECT_THAT(why_stalled(stats, now), HasSubstr("21.0 s"));
}

}  // namespace
}  // namespace butterfly::server
