#include "tensor/pooled_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <utility>

#include "base/error.h"

namespace butterfly {
namespace {

using ::testing::ElementsAre;

TEST(PooledArray, KeepsItsValuesWhenItGrows) {
  PooledArray<int32_t> values;
  EXPECT_TRUE(values.empty());
  const int32_t first[] = {1, 2, 3};
  values.assign(first);
  values.resize(100000);
  EXPECT_THAT(std::span(values).first(3), ElementsAre(1, 2, 3));
  values.resize(2);
  EXPECT_THAT(values, ElementsAre(1, 2));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data()) % kAlignment, 0u);
}

TEST(PooledArray, MovesLeaveNothingBehind) {
  PooledArray<float> a(3);
  a[0] = a[1] = a[2] = 0.5f;
  PooledArray<float> b = std::move(a);
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): that is what is asked
  EXPECT_THAT(b, ElementsAre(0.5f, 0.5f, 0.5f));
  a.resize(1);  // of new memory
  a[0] = 7;
  EXPECT_EQ(b[0], 0.5f);
  b = std::move(a);
  EXPECT_THAT(b, ElementsAre(7.0f));
}

TEST(PooledArray, MemoryOfOneServesTheNext) {
  { PooledArray<std::byte> first(5000); }
  const uint64_t hits = process_pool().stats().hits;
  PooledArray<std::byte> second(5000);
  EXPECT_EQ(process_pool().stats().hits, hits + 1);
}

TEST(PooledArray, ASizeBeyondAnyMemoryIsAnError) {
  PooledArray<int64_t> values(4);
  EXPECT_THROW(values.resize(SIZE_MAX / 2), Error);
  EXPECT_EQ(values.size(), 4u);
}

}  // namespace
}  // namespace butterfly
