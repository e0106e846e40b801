// What requests meet while the cluster has a chain, waits for one, or cannot have one.
#include "runtime/cluster/engine_slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/engine/testing/collector.h"
#include "runtime/engine/testing/fake_stage.h"

namespace butterfly::runtime {
namespace {

using testing::Collector;
using testing::FakeStage;
using ::testing::HasSubstr;

class EngineSlotTest : public ::testing::Test {
 protected:
  std::shared_ptr<Collector> submit() {
    auto sink = std::make_shared<Collector>();
    EngineRequest request;
    request.prompt = {1, 2, 3};
    request.tokens_max = 4;
    EXPECT_TRUE(engine_->submit(std::move(request), sink).ok());
    return sink;
  }
  static Chain chain() { return {std::make_unique<FakeStage>(testing::FakeStageOptions()), nullptr}; }

  EngineSlot slot_{FakeStage({}).info()};
  std::shared_ptr<Engine> engine_ = slot_.make_engine(nullptr, {});
};

TEST_F(EngineSlotTest, ARequestWaitsForTheFirstChain) {
  const auto early = submit();
  slot_.install(chain());
  EXPECT_EQ(early->wait().reason, FinishReason::kLength);
}

TEST_F(EngineSlotTest, WithoutHopeRequestsEndWithTheReason) {
  slot_.give_up({Errc::kOutOfMemory, "one node has too little"});
  const auto sink = submit();
  EXPECT_EQ(sink->wait().reason, FinishReason::kError);
  EXPECT_THAT(sink->wait().status.text(), HasSubstr("too little"));
}

// Between the plan that fits again and its chain lie milliseconds in which clients may come.
TEST_F(EngineSlotTest, AChainOnItsWayMakesRequestsWaitAgain) {
  slot_.give_up({Errc::kOutOfMemory, "one node has too little"});
  EXPECT_EQ(submit()->wait().reason, FinishReason::kError);
  slot_.expect();
  const auto between = submit();
  slot_.install(chain());
  EXPECT_EQ(between->wait().reason, FinishReason::kLength);
}

TEST_F(EngineSlotTest, ToExpectAChainDoesNotDisturbTheOneThatIsThere) {
  slot_.install(chain());
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
  const size_t stages = engine_->stats().stages;
  slot_.expect();
  slot_.give_up({Errc::kOutOfMemory, "said too late"});
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
  EXPECT_EQ(engine_->stats().stages, stages);
}

}  // namespace
}  // namespace butterfly::runtime
