#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <bit>

#include "tensor/dtype.h"

namespace butterfly {
namespace {

TEST(Shape, CountsItsValues) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape({7}).count(), 7);
  EXPECT_EQ(Shape({2, 3, 4}).count(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).count(), 0);
  EXPECT_EQ(Shape({2, 3}).back(), 3);
}

TEST(Shape, ACountThatDoesNotFitIsNoCount) {
  constexpr int64_t kBig = int64_t{1} << 32;
  EXPECT_EQ(Shape({kBig, kBig / 4}).checked_count(), int64_t{1} << 62);
  EXPECT_EQ(Shape({kBig, kBig / 2}).checked_count(), std::nullopt);
  EXPECT_EQ(Shape({kBig, kBig, kBig, kBig}).checked_count(), std::nullopt);
  EXPECT_EQ(Shape({kBig, kBig, 0}).checked_count(), 0);  // wherever the zero stands
  EXPECT_EQ(Shape({0, kBig, kBig}).checked_count(), 0);
  EXPECT_DEATH(Shape({kBig, kBig}).count(), "4294967296");
}

TEST(Shape, PrintsAndCompares) {
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape({2, 3}).to_string(), "[2, 3]");
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({2, 3, 1}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
}

TEST(Shape, TooManyAxesAndNegativeSizesAreOurMistake) {
  EXPECT_EQ(Shape({1, 2, 3, 4, 5, 6}).rank(), kMaxRank);
  EXPECT_DEATH(Shape({1, 2, 3, 4, 5, 6, 7}), "rank 7");
  EXPECT_DEATH(Shape({1, -2}), "size -2 of axis 1");
}

TEST(DType, TableIsWellFormed) {
  for (const DTypeInfo& row : dtype_table()) {
    EXPECT_EQ(&dtype_info(row.dtype), &row);
    EXPECT_EQ(dtype_by_name(row.name), row.dtype);
    EXPECT_GT(row.block_bytes, 0u);
    EXPECT_TRUE(row.block_values == 1 || (row.block_values >= 32 && std::has_single_bit(row.block_values)))
        << row.name;
    if (row.gguf_id >= 0) {
      EXPECT_EQ(dtype_by_gguf_id(static_cast<uint32_t>(row.gguf_id)), row.dtype);
    }
  }
  EXPECT_EQ(dtype_by_name("q4_k"), DType::kQ4_K);
  EXPECT_EQ(dtype_by_name("Q4_KX"), std::nullopt);
  EXPECT_EQ(dtype_by_name(""), std::nullopt);
  EXPECT_EQ(dtype_by_gguf_id(4), std::nullopt);  // a type that GGUF took back
  EXPECT_EQ(dtype_by_gguf_id(UINT32_MAX), std::nullopt);
}

TEST(DType, BytesOfWholeBlocksThatFit) {
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12u);
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 512), 288u);
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 0), 0u);
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 255), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF32, UINT64_MAX / 4), UINT64_MAX / 4 * 4);
  EXPECT_EQ(dtype_bytes(DType::kF32, UINT64_MAX / 4 + 1), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kQ8_0, UINT64_MAX - 31), std::nullopt);
}

}  // namespace
}  // namespace butterfly
