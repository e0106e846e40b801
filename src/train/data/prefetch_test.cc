// Batches come in order and whole, whatever the threads do; errors come where they happened.
#include "train/data/prefetch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "train/data/batch_order.h"
#include "train/data/testing/counting_dataset.h"

namespace butterfly::train {
namespace {

// Threads take uneven times, so that they overtake each other.
void dawdle(uint64_t index) {
  for (uint64_t i = random_u64(1, 2, index) % 2000; i > 0; --i) asm volatile("");
  if (index % 7 == 0) std::this_thread::yield();
}

TEST(Prefetch, OrderAndContentDoNotDependOnThreads) {
  const testing::CountingDataset data(1000);
  const BatchOrder order(data, {.rows = 3, .seed = 9});
  std::vector<std::vector<int32_t>> expected;
  for (const size_t threads : {0u, 1u, 2u, 5u}) {
    for (const size_t depth : {1u, 2u, 128u}) {
      Prefetch prefetch(
          [&](uint64_t index, Batch& batch) {
            dawdle(index);
            order.fill(index, batch);
          },
          {.threads = threads, .depth = depth, .begin = 17, .end = 1017});
      std::vector<std::vector<int32_t>> got;
      while (const Batch* batch = prefetch.next()) {
        ASSERT_EQ(batch->index, 17 + got.size());
        got.emplace_back(batch->ids.begin(), batch->ids.end());
      }
      EXPECT_EQ(got.size(), 1000u);
      EXPECT_EQ(prefetch.next(), nullptr);
      EXPECT_EQ(prefetch.times().batches, 1000u);
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << threads << " threads, depth " << depth;
    }
  }
}

TEST(Prefetch, AnErrorComesAtItsBatchAndTheRestFollows) {
  for (const size_t threads : {0u, 2u}) {
    Prefetch prefetch(
        [](uint64_t index, Batch& batch) {
          if (index == 5) fail(Errc::kCorrupt, "batch {} is torn", index);
          batch.index = index;
        },
        {.threads = threads, .depth = 4, .end = 8});
    for (uint64_t i = 0; i < 8; ++i) {
      if (i == 5) {
        EXPECT_THROW(prefetch.next(), Error);
      } else {
        EXPECT_EQ(prefetch.next()->index, i);
      }
    }
    EXPECT_EQ(prefetch.next(), nullptr);
  }
}

// Left in the middle: threads that wait for a free slot are woken and end.
TEST(Prefetch, EndsWhenNobodyReadsOn) {
  for (int i = 0; i < 50; ++i) {
    Prefetch prefetch([](uint64_t index, Batch& batch) { batch.index = index; }, {.threads = 3, .depth = 2});
    for (int k = 0; k < i % 5; ++k) prefetch.next();
  }
}

TEST(Prefetch, NeverRunsFurtherAheadThanItsDepth) {
  std::atomic<uint64_t> made{0};
  Prefetch prefetch([&](uint64_t, Batch&) { made.fetch_add(1); }, {.threads = 2, .depth = 8});
  for (uint64_t i = 1; i <= 100; ++i) {
    prefetch.next();
    EXPECT_LE(made.load(), i - 1 + 8);
  }
}

}  // namespace
}  // namespace butterfly::train
