// An engine whose chain runs over several nodes samples its batch with the threads of its own node.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "runtime/chain/testing/inproc_chain.h"
#include "runtime/engine/testing/collector.h"
#include "runtime/nodes/engine_slot.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::Collector;
using testing::InprocChain;
using testing::RandomModel;

// Two whose tokens are chosen at the same time meet here: on one thread the first would wait for a second
// that cannot come.
class MeetingPlace {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    if (!met_ && !given_up_) {
      met_ = changed_.wait_for(lock, std::chrono::seconds(10), [&] { return met_ || inside_ >= 2; });
      given_up_ = !met_;
    }
    --inside_;
  }
  bool met() const { return met_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t inside_ = 0;
  bool met_ = false, given_up_ = false;
};

// Allows no token, and ends each text there: whether it may is asked by the thread that would have chosen.
class Meets final : public model::TokenConstraint {
 public:
  explicit Meets(MeetingPlace& place) : place_(place) {}
  void mask(std::span<uint64_t> allowed) override { std::ranges::fill(allowed, uint64_t{0}); }
  bool accept(int32_t) override { return true; }
  bool can_end() const override {
    place_.enter();
    return true;
  }
  std::unique_ptr<model::TokenConstraint> clone() const override { return std::make_unique<Meets>(place_); }

 private:
  MeetingPlace& place_;
};

TEST(SamplingThreads, AChainOverNodesSamplesWithTheThreadsOfItsLastStage) {
  const RandomModel model(DType::kQ8_0, 1);
  InprocChain nodes(model.path(), {2}, {}, 2);
  auto chain = nodes.start();
  EngineSlot slot(chain->info());
  const auto engine = slot.make_engine(nodes.part(1).tokenizer.get(), {});
  MeetingPlace place;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < 8; ++i) {  // before there is a chain, so that they begin together
    EngineRequest request;
    request.prompt = testing::some_tokens(4 + i, 320);
    request.tokens_max = 6;
    request.ignore_eos = true;
    request.constraint = std::make_unique<Meets>(place);
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(std::move(request), sinks.back()).ok());
  }
  slot.install({1, std::move(chain)});
  for (const auto& sink : sinks) (void)sink->wait();
  EXPECT_TRUE(place.met()) << "one thread chose the tokens of all";
  engine->stop();
}

}  // namespace
}  // namespace butterfly::runtime
