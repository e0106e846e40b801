#include "runtime/nodes/stage_links.h"

#include <gtest/gtest.h>

#include <thread>

#include "cluster/transport/inproc.h"

namespace butterfly::runtime {
namespace {

using cluster::NodeId;

constexpr cluster::JobId kJob = 1;
constexpr Duration kSoon = std::chrono::milliseconds(20);
constexpr Duration kLong = std::chrono::seconds(30);

std::unique_ptr<cluster::Link> link_from(const std::string& name) {
  return cluster::inproc_pair({"me", "me"}, {name, name}).first;
}

TEST(StageLinksTest, ALinkIsTakenByItsEpochAndPeer) {
  StageLinks links;
  links.put(kJob, 5, link_from("a"));
  links.put(kJob, 5, link_from("b"));
  links.put(kJob, 6, link_from("a"));
  EXPECT_EQ(links.take(kJob, 5, {"c", "c"}, kSoon).status().code(), Errc::kTimeout);
  const auto taken = links.take(kJob, 6, {"a", "a"}, kSoon);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ((*taken)->peer().key, "a");
  EXPECT_EQ(links.take(kJob, 6, {"a", "a"}, kSoon).status().code(), Errc::kTimeout) << "once";
  EXPECT_TRUE(links.take(kJob, 5, {"a", "a"}, kSoon).ok());
}

TEST(StageLinksTest, AWaitEndsWhenTheLinkComes) {
  StageLinks links;
  std::thread comes([&] { links.put(kJob, 7, link_from("a")); });
  EXPECT_TRUE(links.take(kJob, 7, {"a", "a"}, kLong).ok());
  comes.join();
}

TEST(StageLinksTest, CancelEndsWaitsAndDropsOldLinks) {
  StageLinks links;
  links.put(kJob, 3, link_from("a"));
  links.put(kJob, 9, link_from("a"));
  std::thread stops([&] { links.cancel(kJob, 7); });
  EXPECT_EQ(links.take(kJob, 7, {"a", "a"}, kLong).status().code(), Errc::kCancelled);
  stops.join();
  EXPECT_EQ(links.take(kJob, 3, {"a", "a"}, kSoon).status().code(), Errc::kCancelled);
  links.put(kJob, 7, link_from("a"));
  EXPECT_EQ(links.take(kJob, 7, {"a", "a"}, kSoon).status().code(), Errc::kCancelled)
      << "late ones are dropped";
  EXPECT_TRUE(links.take(kJob, 9, {"a", "a"}, kSoon).ok()) << "newer epochs are not touched";
}

TEST(StageLinksTest, JobsHaveTheirOwn) {
  StageLinks links;
  links.put(1, 5, link_from("a"));
  links.put(2, 5, link_from("a"));
  links.cancel(2, 9);
  EXPECT_EQ(links.take(2, 5, {"a", "a"}, kSoon).status().code(), Errc::kCancelled);
  EXPECT_TRUE(links.take(1, 5, {"a", "a"}, kSoon).ok()) << "the other job's plan holds";
}

TEST(StageLinksTest, TheOldestOfTheSamePeerMakesRoom) {
  StageLinks links;
  links.put(kJob, 1, link_from("b"));
  for (size_t i = 0; i <= StageLinks::kWaitingPerPeer; ++i) links.put(kJob, i + 1, link_from("a"));
  EXPECT_EQ(links.take(kJob, 1, {"a", "a"}, kSoon).status().code(), Errc::kTimeout);
  EXPECT_TRUE(links.take(kJob, 2, {"a", "a"}, kSoon).ok());
  EXPECT_TRUE(links.take(kJob, 1, {"b", "b"}, kSoon).ok()) << "others' links are not touched";
}

// Many members together: those who have the most make room.
TEST(StageLinksTest, AFullHouseTakesFromThoseWhoHaveMost) {
  StageLinks links;
  const size_t crowds = StageLinks::kWaitingMax / StageLinks::kWaitingPerPeer;
  links.put(kJob, 1, link_from("good"));
  for (size_t i = 0; i < crowds * StageLinks::kWaitingPerPeer; ++i)
    links.put(kJob, i + 1, link_from("bad-" + std::to_string(i % crowds)));
  EXPECT_TRUE(links.take(kJob, 1, {"good", "good"}, kSoon).ok());
}

}  // namespace
}  // namespace butterfly::runtime
