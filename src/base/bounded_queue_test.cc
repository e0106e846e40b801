// The queue loses nothing, doubles nothing, keeps the order of each producer, and wakes who sleeps.
#include "base/bounded_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

namespace butterfly {
namespace {

TEST(BoundedQueue, IsAQueue) {
  EXPECT_TRUE(rc::check([] {
    BoundedQueue<int> queue(*rc::gen::inRange<size_t>(1, 9));
    std::deque<int> model;
    int next = 0;
    for (const bool push : *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>())) {
      if (push) {
        int item = next;
        RC_ASSERT(queue.try_push(item) == (model.size() < queue.capacity()));
        if (model.size() < queue.capacity()) model.push_back(next++);
      } else {
        int item = -1;
        RC_ASSERT(queue.try_pop(item) == !model.empty());
        if (model.empty()) continue;
        RC_ASSERT(item == model.front());
        model.pop_front();
      }
    }
  }));
}

TEST(BoundedQueue, AfterCloseTheRestComesOutAndNothingGoesIn) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.push(1));
  EXPECT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesThoseWhoWait) {
  BoundedQueue<int> empty(2), full(2);
  EXPECT_TRUE(full.push(7));
  EXPECT_TRUE(full.push(8));
  std::thread popper([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  std::thread pusher([&] { EXPECT_FALSE(full.push(9)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  empty.close();
  full.close();
  popper.join();
  pusher.join();
}

TEST(BoundedQueue, MovesWhatCannotBeCopied) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.push(std::make_unique<int>(5)));
  EXPECT_EQ(**queue.pop(), 5);
}

// Stops in the middle of being pushed until it is told to go on.
struct Stopping {
  Stopping() = default;
  explicit Stopping(std::atomic<int>& state) : state_(&state) {}
  Stopping(Stopping&& other) noexcept : state_(other.state_) {}
  Stopping& operator=(Stopping&& other) noexcept {
    state_ = other.state_;
    if (state_ != nullptr && state_->load() == 0) {
      state_->store(1);
      while (state_->load() != 2) std::this_thread::yield();
    }
    return *this;
  }
  std::atomic<int>* state_ = nullptr;
};

// close() comes while an item is half pushed: push() says yes, so pop() must give it.
TEST(BoundedQueue, WhatWasTakenBeforeCloseComesOut) {
  BoundedQueue<Stopping> queue(4);
  std::atomic<int> state{0};
  bool pushed = false, popped = false;
  std::thread pusher([&] { pushed = queue.push(Stopping(state)); });
  while (state.load() != 1) std::this_thread::yield();
  queue.close();
  std::atomic<bool> asks{false};
  std::thread popper([&] {
    asks.store(true);
    popped = queue.pop().has_value();
  });
  while (!asks.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // pop() has looked by now, or will find more
  state.store(2);
  pusher.join();
  popper.join();
  EXPECT_TRUE(pushed);
  EXPECT_TRUE(popped);
  EXPECT_FALSE(queue.pop().has_value());
}

// The same by chance, with several of each.
TEST(BoundedQueue, NothingIsLostToCloseAtTheSameMoment) {
  for (int round = 0; round < 300; ++round) {
    BoundedQueue<int> queue(4);
    std::atomic<int> pushed{0}, popped{0};
    std::vector<std::thread> threads;
    for (int p = 0; p < 3; ++p)
      threads.emplace_back([&] {
        for (int i = 0; i < 100 && queue.push(i); ++i) pushed.fetch_add(1);
      });
    for (int c = 0; c < 2; ++c)
      threads.emplace_back([&] {
        while (queue.pop()) popped.fetch_add(1);
      });
    if (round % 2 == 0) std::this_thread::yield();
    queue.close();
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(popped.load(), pushed.load()) << "round " << round;
  }
}

// Every item arrives once, and items of one producer arrive in their order, through a queue that is full and
// empty all the time.
TEST(BoundedQueue, ManyThreadsLoseAndDoubleNothing) {
  constexpr uint32_t kProducers = 4, kConsumers = 4, kEach = 20000;
  for (const size_t capacity : {2u, 4u, 64u}) {
    BoundedQueue<uint32_t> queue(capacity);
    std::vector<std::thread> producers, consumers;
    std::vector<std::vector<uint32_t>> got(kConsumers);
    for (uint32_t p = 0; p < kProducers; ++p)
      producers.emplace_back([&, p] {
        for (uint32_t i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(p * kEach + i));
      });
    for (uint32_t c = 0; c < kConsumers; ++c)
      consumers.emplace_back([&, c] {
        while (const auto item = queue.pop()) got[c].push_back(*item);
      });
    for (auto& thread : producers) thread.join();
    queue.close();
    for (auto& thread : consumers) thread.join();

    std::vector<int> times(kProducers * kEach, 0);
    for (const auto& items : got) {
      std::vector<int64_t> last(kProducers, -1);
      for (const uint32_t item : items) {
        ++times[item];
        EXPECT_GT(static_cast<int64_t>(item), last[item / kEach]) << "out of order";
        last[item / kEach] = item;
      }
    }
    for (const int count : times) ASSERT_EQ(count, 1) << "capacity " << capacity;
  }
}

}  // namespace
}  // namespace butterfly
