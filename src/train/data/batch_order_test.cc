// Which items stand where: every item once an epoch, the same for the same seed.
#include "train/data/batch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "train/data/testing/counting_dataset.h"

namespace butterfly::train {
namespace {

std::vector<int32_t> items_of(const BatchOrder& order, uint64_t index) {
  Batch batch;
  order.fill(index, batch);
  EXPECT_EQ(batch.index, index);
  return {batch.targets.begin(), batch.targets.end()};
}

TEST(BatchOrder, AnEpochHasEveryItemOnce) {
  const testing::CountingDataset data(12);
  const BatchOrder order(data, {.rows = 4, .seed = 5});
  EXPECT_EQ(order.batches_per_epoch(), 3u);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int32_t> seen;
    for (uint64_t i = 0; i < 3; ++i)
      for (const int32_t item : items_of(order, epoch * 3 + i)) seen.insert(item);
    EXPECT_EQ(seen.size(), 12u);
  }
  EXPECT_NE(items_of(order, 0), items_of(order, 3));
}

TEST(BatchOrder, WhatFillsNoBatchIsLeftOutUnlessKept) {
  const testing::CountingDataset data(10);
  EXPECT_EQ(BatchOrder(data, {.rows = 4}).batches_per_epoch(), 2u);
  const BatchOrder kept(data, {.rows = 4, .shuffle = false, .keep_rest = true});
  EXPECT_EQ(kept.batches_per_epoch(), 3u);
  EXPECT_EQ(items_of(kept, 0), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(items_of(kept, 2), (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(items_of(kept, 3), (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(BatchOrder, IsAFunctionOfSeedAndIndex) {
  const testing::CountingDataset data(1000);
  const BatchOrder a(data, {.rows = 8, .seed = 1}), b(data, {.rows = 8, .seed = 1}),
      c(data, {.rows = 8, .seed = 2});
  for (const uint64_t index : {300u, 2u, 124u, 125u}) {  // any order
    EXPECT_EQ(items_of(a, index), items_of(b, index));
    EXPECT_NE(items_of(a, index), items_of(c, index));
  }
}

TEST(BatchOrder, TooFewItemsAreRefusedInWords) {
  const testing::CountingDataset data(3);
  try {
    BatchOrder(data, {.rows = 4});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("3 items do not fill one batch of 4"));
  }
}

}  // namespace
}  // namespace butterfly::train
