// Which links are measured, when, and what becomes of the figures.
#include <gtest/gtest.h>

#include <set>

#include "cluster/testing/coordinator_driver.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using testing::join_message;
using testing::node_id;

struct LinkSurvey : testing::CoordinatorDriver {};

// A hundred nodes have 4950 links; a plan needs few of them.
TEST_F(LinkSurvey, LargeClustersMeasureAFewLinksOfEachNode) {
  CoordinatorConfig with = config();
  with.measure_links = true;
  with.figures_age = std::chrono::hours(1);
  restart(with);
  std::set<std::pair<LinkNumber, std::string>> measured;
  for (int i = 0; i < 100; ++i) join(i);
  for (int round = 0; round < 3000; ++round) {
    for (const auto& [link, order] : sent<Measure>()) {
      measured.emplace(link, order.peer.key);
      coordinator.received(link, LinkReport{order.peer, Errc::kOk, "", {1e-3, 1e8, {}}}, now);
    }
    clear();
    coordinator.tick(now);
  }
  EXPECT_GE(measured.size(), 99u);
  EXPECT_LE(measured.size(), 99u * 9);
  const PlanQuestion question = job().question(now);
  EXPECT_EQ(question.links.size(), 100u * 99) << "the others are estimated";
}

TEST_F(LinkSurvey, FiguresOutliveALossButNotAMove) {
  CoordinatorConfig with = config();
  with.measure_links = true;
  restart(with);
  join(0);
  join(1);
  pass(milliseconds(100));
  say(0, LinkReport{node_id(1), Errc::kOk, "", {1e-3, 1e8, {}}});
  EXPECT_EQ(coordinator.links().size(), 2u);
  coordinator.link_closed(link_of(1), "reset", now);
  clear();
  join(1, 50);
  pass(milliseconds(200));
  EXPECT_TRUE(sent<Measure>().empty());
  coordinator.link_closed(50, "reset", now);
  open(1, 51);
  Join moved = join_message(1);
  moved.address = "192.0.2.9:1";
  coordinator.received(51, moved, now);
  EXPECT_TRUE(coordinator.links().empty());
  pass(milliseconds(200));
  EXPECT_EQ(sent<Measure>().size(), 1u);
}

// Figures say how fast a way was, not that it still is one.
TEST_F(LinkSurvey, AWayThatFailedIsTriedAgainHoweverLatelyItWasMeasured) {
  CoordinatorConfig with = config();
  with.measure_links = true;
  restart(with);
  for (const int node : {0, 1, 2}) join(node);
  size_t answered = 0;
  for (int round = 0; round < 4; ++round) {
    pass(milliseconds(100));
    for (const auto orders = sent<Measure>(); answered < orders.size(); ++answered)
      coordinator.received(orders[answered].first,
                           LinkReport{orders[answered].second.peer, Errc::kOk, "", {1e-3, 1e8, {}}}, now);
  }
  ASSERT_EQ(answered, 3u) << "each pair";
  pass(std::chrono::seconds(1));
  const Epoch epoch = asked();
  coordinator.planned(epoch, placement({1, 2, 0}, 10), now);
  ready({1, 2, 0}, epoch);
  say(1, Started{epoch, Errc::kPeerLost, "no answer"});
  clear();
  const auto broken = [&] { return job().question(now, false).broken.size(); };
  ASSERT_EQ(broken(), 1u);
  pass(with.hold_min + milliseconds(100));  // it may have been a moment's trouble
  EXPECT_EQ(broken(), 1u) << "until somebody has reached it";
  const auto asked_for = sent<Measure>();
  ASSERT_EQ(asked_for.size(), 1u);
  EXPECT_EQ(asked_for[0].first, link_of(1)) << "this very way";
  EXPECT_EQ(asked_for[0].second.peer, node_id(2));
  say(1, LinkReport{node_id(2), Errc::kPeerLost, "no answer", {}});
  pass(2 * with.hold_min - milliseconds(100));
  EXPECT_EQ(sent<Measure>().size(), 1u) << "later each time";
  pass(milliseconds(200));
  ASSERT_EQ(sent<Measure>().size(), 2u);
  pass(4 * with.hold_min - milliseconds(200));
  ASSERT_EQ(sent<Measure>().size(), 2u) << "also where no answer comes";
  pass(milliseconds(200));
  ASSERT_EQ(sent<Measure>().size(), 3u);
  EXPECT_EQ(broken(), 1u);
  say(1, LinkReport{node_id(2), Errc::kOk, "", {1e-3, 1e8, {}}});
  EXPECT_EQ(broken(), 0u);
}

TEST_F(LinkSurvey, FiguresOutliveTheCoordinator) {
  CoordinatorConfig with = config();
  with.measure_links = true;
  with.unix_ms = 1'000'000;
  restart(with);
  for (int i = 0; i < 3; ++i) join(i);
  for (int round = 0; round < 3; ++round) {
    pass(milliseconds(100));
    for (const auto& [link, order] : sent<Measure>())
      coordinator.received(link, LinkReport{order.peer, Errc::kOk, "", {1e-3, 1e8, {}}}, now);
    clear();
  }
  with.known_links = coordinator.known_links(now);
  ASSERT_EQ(with.known_links.size(), 3u) << "each pair once";

  const auto measured_after = [&](int64_t later_ms, const std::string& address_of_1) {
    with.unix_ms = 1'000'000 + later_ms;
    restart(with);
    clear();
    join(0);
    open(1, link_of(1));
    Join again = join_message(1);
    if (!address_of_1.empty()) again.address = address_of_1;
    coordinator.received(link_of(1), again, now);
    pass(milliseconds(200));
    return sent<Measure>().size();
  };
  EXPECT_EQ(measured_after(60'000, ""), 0u);
  EXPECT_EQ(coordinator.links().size(), 6u);
  EXPECT_EQ(measured_after(60'000, "192.0.2.9:1"), 1u) << "it moved";
  EXPECT_EQ(measured_after(2 * 3600'000, ""), 1u) << "too old";
  EXPECT_EQ(measured_after(-60'000, ""), 1u) << "the clock was set back";
}

}  // namespace
}  // namespace butterfly::cluster
