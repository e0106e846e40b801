// Turns by what clients were given, not by how much they ask.
#include "runtime/engine/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using ::testing::ElementsAre;
using Decision = FairQueue::Decision;

struct FairQueueTest : ::testing::Test {
  void add(uint64_t client, uint64_t id) {
    queue.join(client);
    queue.push_back(client, RequestId{id}, 10);
  }
  // Takes `count` requests, each of which costs its client so many tokens.
  std::vector<uint64_t> take(size_t count, size_t tokens = 10) {
    std::vector<uint64_t> ids;
    queue.offer([&](RequestId id) {
      if (ids.size() == count) return Decision::kStop;
      ids.push_back(static_cast<uint64_t>(id));
      queue.charge(static_cast<uint64_t>(id) / 100, tokens);
      return Decision::kTake;
    });
    return ids;
  }
  FairQueue queue;  // the client of request 3xx is 3
};

TEST_F(FairQueueTest, OneClientIsServedInOrder) {
  for (uint64_t id : {101, 102, 103}) add(1, id);
  EXPECT_EQ(queue.tokens(), 30u);
  EXPECT_THAT(take(2), ElementsAre(101, 102));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.tokens(), 10u);
}

TEST_F(FairQueueTest, ClientsTakeTurns) {
  for (uint64_t id : {101, 102, 103, 104}) add(1, id);
  for (uint64_t id : {201, 202}) add(2, id);
  EXPECT_THAT(take(6), ElementsAre(101, 201, 102, 202, 103, 104));
}

TEST_F(FairQueueTest, WhoComesLateHasNoClaimToThePast) {
  for (uint64_t id : {101, 102, 103, 104}) add(1, id);
  EXPECT_THAT(take(2, 1000), ElementsAre(101, 102));
  for (uint64_t id : {201, 202, 203}) add(2, id);
  EXPECT_THAT(take(4, 1000), ElementsAre(103, 201, 104, 202));
}

TEST_F(FairQueueTest, SkippedOnesKeepTheirPlace) {
  for (uint64_t id : {101, 102, 103}) add(1, id);
  std::vector<uint64_t> seen;
  queue.offer([&](RequestId id) {
    seen.push_back(static_cast<uint64_t>(id));
    return id == RequestId{102} ? Decision::kTake : Decision::kSkip;
  });
  EXPECT_THAT(seen, ElementsAre(101, 102, 103));
  EXPECT_THAT(take(5), ElementsAre(101, 103));
}

TEST_F(FairQueueTest, WhoLostItsPlaceComesFirstAgain) {
  for (uint64_t id : {101, 102}) add(1, id);
  EXPECT_THAT(take(1), ElementsAre(101));
  queue.push_front(1, RequestId{101}, 25);
  EXPECT_EQ(queue.tokens(), 35u);
  EXPECT_THAT(take(2), ElementsAre(101, 102));
}

TEST_F(FairQueueTest, RemovedOnesAreGone) {
  for (uint64_t id : {101, 102}) add(1, id);
  EXPECT_TRUE(queue.remove(1, RequestId{101}));
  EXPECT_FALSE(queue.remove(1, RequestId{101}));
  EXPECT_THAT(take(5), ElementsAre(102));
  EXPECT_EQ(queue.tokens(), 0u);
}

TEST_F(FairQueueTest, TheBackgroundComesLast) {
  queue.join(3, true);
  queue.push_back(3, RequestId{300}, 10);
  add(1, 100);
  add(1, 101);
  EXPECT_THAT(take(3), ElementsAre(100, 101, 300));
}

}  // namespace
}  // namespace butterfly::runtime
