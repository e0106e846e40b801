#include "runtime/chain/step_wait.h"

#include <gtest/gtest.h>

#include <thread>

#include "cluster/transport/inproc.h"

namespace butterfly::runtime {
namespace {

// A link on which messages come when the test says, by counting the calls: no clock decides.
class ScriptedLink final : public cluster::Link {
 public:
  const cluster::NodeId& peer() const override { return id_; }
  Status send(cluster::MessageHead, std::span<const std::span<const std::byte>>, Duration) override {
    return {};
  }
  Result<cluster::MessageHead> receive_head(Duration timeout) override {
    timeouts.push_back(timeout);
    if (lost) return Status(Errc::kPeerLost, "gone");
    if (timeout == Duration(0) ? found_by_spinning
                               : (wake_by_itself && timeouts.size() == 1) || last_chance(timeout)) {
      std::this_thread::sleep_until(comes);
      return cluster::MessageHead{};
    }
    if (timeout > Duration(0)) std::this_thread::sleep_for(timeout);
    return Status(Errc::kTimeout, "nothing came");
  }
  Status receive_body(std::span<std::byte>, Duration) override { return {}; }
  void close() override {}
  cluster::LinkCounters counters() const override { return {}; }

  bool last_chance(Duration timeout) const { return timeout > std::chrono::seconds(10); }
  std::vector<Duration> timeouts;
  bool found_by_spinning = true, wake_by_itself = false, lost = false;
  TimePoint comes{};

 private:
  cluster::NodeId id_;
};

constexpr Duration kPatience = std::chrono::seconds(30);

void learn(ScriptedLink& link, StepWait& wait, Duration after) {
  for (size_t i = 0; i < 5; ++i) {
    link.comes = SystemClock::instance().now() + after;
    ASSERT_TRUE(wait.receive_head(link, kPatience).ok());
  }
}

TEST(StepWait, SpinsWhenTheNextMessageIsExpected) {
  ScriptedLink link;
  StepWait wait;
  learn(link, wait, std::chrono::milliseconds(4));
  EXPECT_EQ(link.timeouts, std::vector<Duration>(5, kPatience)) << "nothing is known yet";
  link.timeouts.clear();
  ASSERT_TRUE(wait.receive_head(link, kPatience).ok());
  ASSERT_EQ(link.timeouts.size(), 2u) << "sleeps until shortly before, then spins";
  EXPECT_GE(link.timeouts[0], std::chrono::milliseconds(2));
  EXPECT_EQ(link.timeouts[1], Duration(0));
  EXPECT_EQ(wait.spin_hits(), 1u);
}

TEST(StepWait, StopsSpinningWhereNothingCanBeExpected) {
  ScriptedLink link;
  StepWait wait;
  learn(link, wait, std::chrono::milliseconds(2));
  link.found_by_spinning = false;
  for (size_t i = 0; i < 300; ++i) {
    link.comes = SystemClock::instance().now() + std::chrono::milliseconds(1);
    ASSERT_TRUE(wait.receive_head(link, kPatience).ok());
  }
  EXPECT_EQ(wait.spin_hits(), 0u);
  EXPECT_GT(wait.spins(), 2u);
  EXPECT_LT(wait.spins(), 20u);
}

TEST(StepWait, AskForNothingLongAndErrorsPass) {
  ScriptedLink link;
  StepWait wait;
  learn(link, wait, std::chrono::milliseconds(3));
  EXPECT_EQ(wait.receive_head(link, std::chrono::milliseconds(1)).status().code(), Errc::kTimeout);
  link.lost = true;
  EXPECT_EQ(wait.receive_head(link, kPatience).status().code(), Errc::kPeerLost);
}

TEST(StepWait, DeliversEverythingOfARealLink) {
  auto [here, there] = cluster::inproc_pair({"a", "here"}, {"b", "there"});
  std::thread sender([&there = there] {
    for (uint64_t i = 0; i < 200; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(i % 50 == 0 ? 3000 : 300));
      ASSERT_TRUE(there
                      ->send({.kind = cluster::MessageKind::kControl, .epoch = 0, .step = i, .bytes = 0}, {},
                             kPatience)
                      .ok());
    }
  });
  StepWait wait;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto head = wait.receive_head(*here, kPatience);
    ASSERT_TRUE(head.ok());
    EXPECT_EQ(head->step, i);
    ASSERT_TRUE(here->receive_body({}, kPatience).ok());
  }
  sender.join();
}

}  // namespace
}  // namespace butterfly::runtime
