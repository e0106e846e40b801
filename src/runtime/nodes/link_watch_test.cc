#include "runtime/nodes/link_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using std::chrono::seconds;

// To a machine that may fall silent.
struct SilentLink final : cluster::Link {
  cluster::NodeId id{"k", "pi"};
  Duration silent{};
  bool closed = false;

  const cluster::NodeId& peer() const override { return id; }
  Status send(cluster::MessageHead, std::span<const std::span<const std::byte>>, Duration) override {
    return {};
  }
  Result<cluster::MessageHead> receive_head(Duration) override { return Status(Errc::kTimeout, "nothing"); }
  Status receive_body(std::span<std::byte>, Duration) override { return {}; }
  Duration unacknowledged() const override { return silent; }
  void close() override { closed = true; }
  cluster::LinkCounters counters() const override { return {}; }
};

TEST(LinkWatchTest, ACutIsToldOnceWithItsPeerAndTheLinkIsClosed) {
  const auto link = std::make_shared<SilentLink>();
  std::vector<std::string> told;
  LinkWatch watch;
  watch.look(seconds(4));
  watch.begin(7, link, [&](cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why) {
    EXPECT_FALSE(link->closed) << "who it was is known before the chain is broken";
    told.push_back(fmt::format("{} {} {}", epoch, peer.name, why));
  });
  link->silent = seconds(3);
  watch.look(seconds(4));
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(link->closed);
  link->silent = seconds(4);
  watch.look(seconds(4));
  watch.look(seconds(4));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], ::testing::StartsWith("7 pi its machine has acknowledged nothing"));
  EXPECT_TRUE(link->closed);
}

TEST(LinkWatchTest, ALinkThatIsGoneIsNobodysConcern) {
  LinkWatch watch;
  watch.begin(7, std::make_shared<SilentLink>(),
              [](cluster::Epoch, const cluster::NodeId&, const std::string&) { FAIL(); });
  watch.look(Duration(0));
}

}  // namespace
}  // namespace butterfly::runtime
