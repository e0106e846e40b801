#include "runtime/nodes/link_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/chain/testing/silent_link.h"

namespace butterfly::runtime {
namespace {

using std::chrono::seconds;
using testing::SilentLink;

struct LinkWatchTest : ::testing::Test {
  void begin() {
    watch.begin(7, {.to_first = first, .from_last = last, .group = {}},
                [this](cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why) {
                  EXPECT_FALSE(first->closed) << "who it was is known before the chain is broken";
                  told.push_back(fmt::format("{} {} {}", epoch, peer.name, why));
                });
  }
  std::shared_ptr<SilentLink> first = std::make_shared<SilentLink>("pi"),
                              last = std::make_shared<SilentLink>("nuc");
  std::vector<std::string> told;
  LinkWatch watch;
};

TEST_F(LinkWatchTest, ACutIsToldOnceWithItsPeerAndTheLinksAreClosed) {
  watch.look(seconds(4));
  begin();
  first->unheard = seconds(3);
  watch.look(seconds(4));
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(first->closed);
  first->unheard = seconds(4);
  watch.look(seconds(4));
  watch.look(seconds(4));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], ::testing::StartsWith("7 pi its machine has acknowledged nothing"));
  EXPECT_TRUE(first->closed && last->closed);
}

TEST_F(LinkWatchTest, TheWayBackCanBeCutToo) {
  begin();
  last->silence = seconds(100);
  // It judges when it has looked on for so long without a pause of its own.
  const Deadline deadline(SystemClock::instance(), seconds(60));
  while (told.empty() && !deadline.expired()) watch.look(std::chrono::milliseconds(200));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], ::testing::StartsWith("7 nuc nothing has come"));
  EXPECT_TRUE(first->closed && last->closed);
}

TEST_F(LinkWatchTest, TheFirstStageHearsBeats) {
  begin();
  watch.look(seconds(4));
  EXPECT_EQ(first->beats, 1u);
  EXPECT_EQ(last->beats, 0u) << "nobody reads there";
}

TEST_F(LinkWatchTest, LinksThatAreGoneAreNobodysConcern) {
  begin();
  first->unheard = last->silence = seconds(100);
  first.reset();
  last.reset();
  watch.look(Duration(0));
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace butterfly::runtime
