#include "runtime/nodes/node_memory.h"

#include <gtest/gtest.h>

#include <thread>

namespace butterfly::runtime {
namespace {

TEST(NodeMemory, WhatAJobHoldsIsItsOwnToUseAgain) {
  uint64_t free = 100;
  NodeMemory memory(0, [&] { return free; });
  EXPECT_EQ(memory.usable_bytes(), 100u);
  memory.claim(1, 60);
  EXPECT_EQ(memory.usable_bytes(2), 40u) << "what the other is about to take is not free";
  memory.loaded(1, 40);
  free = 60;
  EXPECT_EQ(memory.usable_bytes(1), 100u);
  EXPECT_EQ(memory.usable_bytes(2), 40u) << "its cache is still to come";
  EXPECT_EQ(memory.usable_bytes(), 100u);
  memory.release(1);
  free = 100;
  EXPECT_EQ(memory.usable_bytes(2), 100u);
}

TEST(NodeMemory, ABoundIsForAllTogether) {
  NodeMemory memory(50, [] { return uint64_t{1000}; });
  EXPECT_EQ(memory.usable_bytes(1), 50u);
  memory.claim(1, 30);
  memory.loaded(1, 25);
  EXPECT_EQ(memory.usable_bytes(1), 50u);
  EXPECT_EQ(memory.usable_bytes(2), 20u);
  memory.claim(2, 20);
  EXPECT_EQ(memory.usable_bytes(3), 0u);
  EXPECT_EQ(memory.usable_bytes(), 50u);
}

TEST(NodeMemory, WhoNeedsRoomWaitsForWhoGoes) {
  NodeMemory memory(0, [] { return uint64_t{10}; });
  memory.claim(1, 5);
  memory.wait_for_releases(2, std::chrono::hours(1));  // nobody goes
  memory.will_release(1);
  memory.wait_for_releases(1, std::chrono::hours(1));  // not for itself
  memory.wait_for_releases(2, std::chrono::milliseconds(1));
  EXPECT_EQ(memory.usable_bytes(2), 5u) << "not gone yet";
  std::thread goes([&] { memory.release(1); });
  memory.wait_for_releases(2, std::chrono::hours(1));
  EXPECT_EQ(memory.usable_bytes(2), 10u);
  goes.join();
}

}  // namespace
}  // namespace butterfly::runtime
