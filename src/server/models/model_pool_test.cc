// Models that load slowly, and who waits for them.
#include "server/models/model_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/error.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

TEST(ModelPool, WhoMustNotWaitIsToldAndHearsOfIt) {
  std::promise<void> let_go;
  const std::shared_future<void> gate = let_go.get_future().share();
  std::atomic<int> loads = 0;
  ModelPool::Options options;
  options.memory_bytes = 1 << 20;
  options.forecast = [](const ModelSpec&) { return MemoryForecast{}; };
  options.load = [&](const ModelSpec&, const ModelPool::EnginePtr&) -> ModelPtr {
    ++loads;
    gate.wait();  // as a slow disk would
    fail(Errc::kIo, "the disk is broken");
  };
  ModelSpec slow;
  slow.name = "slow";
  ModelPool pool({slow}, std::move(options));
  EXPECT_THROW(pool.ready("slow"), ModelNotLoaded);
  EXPECT_THROW(pool.ready("other"), ApiError);
  std::atomic<int> told = 0;
  std::promise<std::string> last;
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(pool.load_then("slow", [&](const ApiError* error) {
      if (++told == 8) last.set_value(error == nullptr ? "" : error->what());
    }));
  while (loads == 0) std::this_thread::yield();
  EXPECT_THROW(pool.ready("slow"), ModelNotLoaded) << "while it loads, nobody else is held up";
  EXPECT_EQ(told, 0);
  let_go.set_value();
  EXPECT_THAT(last.get_future().get(), HasSubstr("the disk is broken"));
  EXPECT_EQ(loads, 1) << "once for all who wait";
}

TEST(ModelPool, WaitersAreBounded) {
  std::promise<void> let_go;
  const std::shared_future<void> gate = let_go.get_future().share();
  ModelPool::Options options;
  options.forecast = [](const ModelSpec&) { return MemoryForecast{}; };
  options.load = [&](const ModelSpec&, const ModelPool::EnginePtr&) -> ModelPtr {
    gate.wait();
    fail(Errc::kIo, "no");
  };
  ModelSpec slow;
  slow.name = "slow";
  ModelPool pool({slow}, std::move(options));
  size_t taken = 0;
  while (taken < 10000 && pool.load_then("slow", [](const ApiError*) {})) ++taken;
  EXPECT_LE(taken, 256u);
  EXPECT_GE(taken, 100u);
  let_go.set_value();
}

}  // namespace
}  // namespace butterfly::server
