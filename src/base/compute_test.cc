#include "base/compute.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace butterfly {
namespace {

// Without turns the pool itself ends the program: run() from two threads.
TEST(Compute, ManyThreadsComputeInTurns) {
  Compute compute(2);
  constexpr size_t kThreads = 4, kTurns = 200;
  size_t runs = 0;  // guarded by the turn
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; i < kTurns; ++i) {
        const Compute::Turn turn = compute.take();
        std::atomic<size_t> workers = 0;
        turn.pool().run([&](size_t) { ++workers; });
        EXPECT_EQ(workers, compute.size());
        ++runs;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, kThreads * kTurns);
}

// Who holds it and asks again at once waits behind the one who asked meanwhile.
TEST(Compute, TurnsComeInTheOrderTheyWereAskedFor) {
  Compute compute(1);
  std::vector<int> order;
  auto first = std::make_unique<Compute::Turn>(compute.take());
  std::thread other([&] {
    const Compute::Turn turn = compute.take();
    order.push_back(1);
  });
  while (compute.waiting() == 0) std::this_thread::yield();
  first.reset();
  {
    const Compute::Turn again = compute.take();
    order.push_back(0);
  }
  other.join();
  EXPECT_EQ(order, (std::vector<int>{1, 0}));
}

TEST(Compute, TheLastGoAfterAllOthers) {
  Compute compute(1);
  std::vector<int> order;
  auto first = std::make_unique<Compute::Turn>(compute.take());
  std::thread last([&] {
    const Compute::Turn turn = compute.take_last();
    order.push_back(2);
  });
  std::thread other([&] {
    const Compute::Turn turn = compute.take();
    order.push_back(1);
  });
  while (compute.waiting() == 0) std::this_thread::yield();  // whoever comes last does not wait in line
  first.reset();
  other.join();
  last.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_TRUE(compute.try_take());
}

TEST(Compute, TryTakeIsRefusedWhileSomebodyComputes) {
  Compute compute(1);
  {
    const Compute::Turn turn = compute.take();
    EXPECT_FALSE(compute.try_take());
  }
  const auto turn = compute.try_take();
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->pool().size(), 1u);
  EXPECT_FALSE(compute.try_take());
}

}  // namespace
}  // namespace butterfly
