#include "cluster/transport/pace.h"

#include <gtest/gtest.h>

namespace butterfly::cluster {
namespace {

using namespace std::chrono_literals;

struct PaceTest : ::testing::Test {
  // A record whose first piece comes now, and the last one so much later.
  void record(size_t bytes, Duration takes) {
    if (takes > Duration{}) pace.began(now);
    now += takes / 2;
    if (takes > Duration{}) pace.began(now);
    now += takes - takes / 2;
    pace.came(bytes, now);
  }
  Pace pace;
  TimePoint now{1h};
};

TEST_F(PaceTest, WholeRecordsDoNotCrawl) {
  for (int i = 0; i < 10; ++i) {
    record(50, 0s);
    now += 1s;
    EXPECT_EQ(pace.crawling(now), Duration{});
  }
}

// 100 kB/s: a slow network, and one to work with.
TEST_F(PaceTest, LargeRecordsMayTakeTheirTime) {
  for (int i = 0; i < 10; ++i) record(16384, 160ms);
  EXPECT_EQ(pace.crawling(now), Duration{});
}

TEST_F(PaceTest, OneSlowRecordAfterTheOtherIsACrawl) {
  record(500, 0s);
  const TimePoint began = now;
  for (int i = 0; i < 5; ++i) {
    record(500, 1s);  // 500 bytes a second
    now += 1s;
  }
  EXPECT_EQ(pace.crawling(now), now - began);
  record(500, 10ms);
  EXPECT_EQ(pace.crawling(now), Duration{}) << "it was a bad moment";
}

TEST_F(PaceTest, ARecordThatIsNotWholeYetIsNotJudged) {
  pace.began(now);
  now += 1h;
  EXPECT_EQ(pace.crawling(now), Duration{}) << "that is silence, which others look for";
  pace.came(50, now);
  EXPECT_EQ(pace.crawling(now), Duration(1h));
}

}  // namespace
}  // namespace butterfly::cluster
