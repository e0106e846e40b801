#include "model/tokenizer/join_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <queue>

namespace butterfly::model {
namespace {

// Pushes and pops in any order, keys above and below those taken before: the order of a plain heap.
RC_GTEST_PROP(JoinQueue, TakesTheSmallestFirst, (const std::vector<std::pair<bool, uint64_t>>& steps)) {
  const int shift = *rc::gen::inRange(0, 60);
  JoinQueue queue;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> plain;
  uint64_t key = 0;
  for (const auto& [is_push, value] : steps) {
    if (is_push || plain.empty()) {
      queue.push(value >> shift);
      plain.push(value >> shift);
    } else {
      RC_ASSERT(queue.pop(key));
      RC_ASSERT(key == plain.top());
      plain.pop();
    }
  }
  for (; !plain.empty(); plain.pop()) {
    RC_ASSERT(queue.pop(key));
    RC_ASSERT(key == plain.top());
  }
  RC_ASSERT(!queue.pop(key));
}

TEST(JoinQueue, IsEmptyAfterClear) {
  JoinQueue queue;
  uint64_t key = 0;
  for (const uint64_t value : {7u, 3u, 9u}) queue.push(value);
  ASSERT_TRUE(queue.pop(key));
  EXPECT_EQ(key, 3u);
  queue.push(1);  // below the last one taken
  queue.clear();
  EXPECT_FALSE(queue.pop(key));
  queue.push(2);
  ASSERT_TRUE(queue.pop(key));
  EXPECT_EQ(key, 2u);
}

}  // namespace
}  // namespace butterfly::model
