#include "runtime/chain/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/chain/testing/silent_link.h"

namespace butterfly::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SilentLink;

struct SilenceWatchTest : ::testing::Test {
  // So much later.
  std::optional<SilenceWatch::Cut> look(Duration later) {
    now += later;
    cluster::Link* const to[] = {&next, nullptr};
    cluster::Link* const from[] = {nullptr, &before};
    return watch.look(to, from, seconds(4), now);
  }
  void look_for(Duration time) {
    for (Duration t{}; t < time; t += milliseconds(50)) EXPECT_FALSE(look(milliseconds(50)));
  }
  SilentLink next{"next"}, before{"before"};
  TimePoint now{};
  SilenceWatch watch;
};

TEST_F(SilenceWatchTest, WhoSendsNothingIsNamedAfterTheLimit) {
  look_for(seconds(5));
  before.silence = milliseconds(3999);
  EXPECT_FALSE(look(milliseconds(50)));
  before.silence = seconds(4);
  const auto cut = look(milliseconds(50));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->peer, before.id);
  EXPECT_THAT(cut->why, ::testing::StartsWith("nothing has come from it for 4"));
}

TEST_F(SilenceWatchTest, WhoseMachineAcknowledgesNothingIsNamedAtOnce) {
  next.unheard = seconds(4);
  const auto cut = look(milliseconds(0));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->peer, next.id);
}

TEST_F(SilenceWatchTest, TheNextOneHearsABeatAtEveryLook) {
  look_for(seconds(1));
  EXPECT_EQ(next.beats, 20u);
  EXPECT_EQ(before.beats, 0u);
}

// A laptop whose lid was closed: everybody was silent, because it was.
TEST_F(SilenceWatchTest, WhoStoodStillItselfListensAgainBeforeItJudges) {
  look_for(seconds(5));
  before.silence = seconds(60);
  EXPECT_FALSE(look(seconds(60)));
  look_for(milliseconds(3900));
  EXPECT_TRUE(look(milliseconds(200))) << "and that one was silent before and after";
}

}  // namespace
}  // namespace butterfly::runtime
