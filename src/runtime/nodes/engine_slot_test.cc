// What requests meet while the cluster has a chain, waits for one, or cannot have one.
#include "runtime/nodes/engine_slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>

#include "runtime/engine/testing/collector.h"
#include "runtime/engine/testing/fake_chain.h"

namespace butterfly::runtime {
namespace {

using testing::Collector;
using testing::FakeChain;
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
  static PlacedChain chain(cluster::Epoch epoch = 1, testing::FakeChainOptions options = {}) {
    return {epoch, std::make_unique<FakeChain>(options)};
  }

  EngineSlot slot_{FakeChain({}).info()};
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
  const size_t chains = engine_->stats().chains;
  slot_.expect();
  slot_.give_up({Errc::kOutOfMemory, "said too late"});
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
  EXPECT_EQ(engine_->stats().chains, chains);
}

// What happened once under load: the engine had just found its old chain broken when the next one came, and
// the loss was taken for that of the new one.
TEST_F(EngineSlotTest, TheLossOfAnOldChainIsNotThatOfTheNewOne) {
  std::vector<cluster::Epoch> lost;
  std::mutex mutex;
  slot_.on_lost([&](cluster::Epoch epoch, const Status&) {
    const std::lock_guard lock(mutex);
    lost.push_back(epoch);
  });
  const Status gone(Errc::kPeerLost, "gone");
  std::promise<void> found_broken, next_is_there;
  testing::FakeChainOptions breaks;
  breaks.fault = [&](uint64_t) { return gone; };
  bool first = true;
  breaks.reset_fault = [&](uint64_t) -> Status {
    if (std::exchange(first, false)) return {};
    found_broken.set_value();
    next_is_there.get_future().wait();
    return gone;
  };
  slot_.install(chain(1, breaks));
  const auto sink = submit();
  found_broken.get_future().wait();
  slot_.remove();
  slot_.install(chain(2));
  next_is_there.set_value();
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
  EXPECT_TRUE(slot_.connected());
  const std::lock_guard lock(mutex);
  EXPECT_THAT(lost, ::testing::ElementsAre(1)) << "its first step said so";
}

TEST_F(EngineSlotTest, AChainThatBreaksIsReportedWithItsEpoch) {
  std::promise<cluster::Epoch> lost;
  slot_.on_lost([&](cluster::Epoch epoch, const Status&) { lost.set_value(epoch); });
  testing::FakeChainOptions breaks;
  breaks.fault = [](uint64_t) { return Status(Errc::kPeerLost, "gone"); };
  breaks.reset_fault = [first = true](uint64_t) mutable {
    return std::exchange(first, false) ? Status() : Status(Errc::kPeerLost, "gone");
  };
  slot_.install(chain(5, breaks));
  const auto sink = submit();
  EXPECT_EQ(lost.get_future().get(), 5u);
  EXPECT_FALSE(slot_.connected());
  slot_.install(chain(6));
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
}

// Says when it is destroyed.
class Mortal final : public Chain {
 public:
  explicit Mortal(std::promise<void>& dead) : dead_(dead) {}
  ~Mortal() override { dead_.set_value(); }
  const ChainInfo& info() const override { return inner_.info(); }
  Status submit(const StepRequest& request) override { return inner_.submit(request); }
  StepResult receive(Duration timeout) override { return inner_.receive(timeout); }
  Status reset(uint64_t epoch, Duration timeout) override { return inner_.reset(epoch, timeout); }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { inner_.for_each(count, fn); }
  void close() override { inner_.close(); }

 private:
  FakeChain inner_{testing::FakeChainOptions()};
  std::promise<void>& dead_;
};

// Its weights and its cache are memory that the next plan needs.
TEST_F(EngineSlotTest, AChainThatIsRemovedIsGone) {
  std::promise<void> dead;
  slot_.install({1, std::make_unique<Mortal>(dead)});
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
  slot_.remove();
  EXPECT_EQ(dead.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const auto sink = submit();
  slot_.install(chain(2));
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
}

TEST_F(EngineSlotTest, AnEngineThatIsMadeAnewGetsAnotherChain) {
  std::promise<cluster::Epoch> lost;
  slot_.on_lost([&](cluster::Epoch epoch, const Status&) { lost.set_value(epoch); });
  slot_.install(chain(3));
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
  engine_.reset();
  engine_ = slot_.make_engine(nullptr, {});
  EXPECT_EQ(lost.get_future().get(), 3u) << "the chain went with the engine before";
  slot_.install(chain(4));
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
}

// The loss of a node is often seen first by its control link: the shell takes the chain away while a step is
// inside. That counts as if the chain had said so; a chain that is taken away after a pause does not.
TEST_F(EngineSlotTest, ARequestWhoseStepsLoseTheChainIsGivenUp) {
  const auto sink = submit();
  for (cluster::Epoch epoch = 1; epoch <= 3; ++epoch) {
    struct Step {  // the engine may still be in it when the next chain comes
      std::promise<void> began, go_on;
      std::shared_future<void> may_end = go_on.get_future().share();
      std::atomic<bool> once{false};
    };
    const auto step = std::make_shared<Step>();
    testing::FakeChainOptions options;
    options.fault = [step](uint64_t) {
      if (step->once.exchange(true)) return Status();
      step->began.set_value();
      step->may_end.wait();
      return Status(Errc::kCancelled, "the chain was closed");
    };
    slot_.install(chain(epoch, options));
    step->began.get_future().wait();
    EXPECT_FALSE(sink->finished()) << epoch;
    slot_.remove();
    step->go_on.set_value();
    if (epoch < 3) continue;
    EXPECT_EQ(sink->wait().reason, FinishReason::kError);
    EXPECT_THAT(sink->wait().status.text(), HasSubstr("the request was given up"));
  }
  slot_.install(chain(4));
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength) << "others go on";
}

// Placement changes between steps: the one that runs ends, none begins, and nothing is computed twice.
TEST_F(EngineSlotTest, APauseLetsTheStepEndThatIsUnderWay) {
  for (const size_t steps_max : {size_t{1}, size_t{3}}) {
    std::promise<void> began, go_on;
    std::shared_future<void> may_end = go_on.get_future().share();
    std::atomic<int> steps{0};
    testing::FakeChainOptions options;
    options.steps_max = steps_max;
    options.fault = [&](uint64_t) {
      if (steps.fetch_add(1) == 0) {
        began.set_value();
        may_end.wait();
      }
      return Status();
    };
    slot_.install(chain(steps_max, options));
    const auto sink = submit();
    began.get_future().wait();
    const size_t resets = engine_->stats().chain_resets;
    std::promise<void> paused;
    std::atomic<bool> is_paused{false};
    slot_.pause([&] {
      is_paused = true;
      paused.set_value();
    });
    EXPECT_FALSE(is_paused) << "a step is under way";
    go_on.set_value();
    paused.get_future().wait();
    sink->wait_for_tokens(1);  // of the step that ended
    EXPECT_FALSE(sink->finished());
    EXPECT_LE(steps.load(), static_cast<int>(steps_max));
    slot_.resume();
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
    EXPECT_EQ(engine_->stats().chain_resets, resets) << "nothing was replayed";
    slot_.remove();
  }
}

TEST_F(EngineSlotTest, APauseWithoutAChainIsOneAtOnce) {
  bool paused = false;
  slot_.pause([&] { paused = true; });
  EXPECT_TRUE(paused);
  slot_.install(chain(1));
  paused = false;
  slot_.pause([&] { paused = true; });
  EXPECT_TRUE(paused) << "no step is under way";
  // The next chain knows nothing of it.
  slot_.remove();
  slot_.install(chain(2));
  EXPECT_EQ(submit()->wait().reason, FinishReason::kLength);
}

}  // namespace
}  // namespace butterfly::runtime
