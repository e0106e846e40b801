// Gather: rows of plain and quantised tables are what to_float() makes of them, in the order asked for.
#include "kernels/rows/gather.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/digest/test_floats.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

TEST(Gather, HandValues) {
  const float table[] = {1, 2, 3, 4, 5, 6};
  const int32_t ids[] = {2, 0, 2};
  float out[6] = {};
  gather_rows({DType::kF32, std::as_bytes(std::span(table)), 2}, ids, out);
  const float want[] = {5, 6, 1, 2, 5, 6};
  EXPECT_EQ(first_difference(want, out, 6), 6u);

  const uint16_t halves[] = {f32_to_f16(0.5f), f32_to_f16(-3), f32_to_f16(7), f32_to_f16(65504)};
  gather_rows({DType::kF16, std::as_bytes(std::span(halves)), 1}, std::span(ids, 1), out);
  EXPECT_EQ(out[0], 7);
  const uint16_t brains[] = {f32_to_bf16(0.5f), f32_to_bf16(1e30f)};
  const int32_t second = 1;
  gather_rows({DType::kBF16, std::as_bytes(std::span(brains)), 1}, std::span(&second, 1), out);
  EXPECT_EQ(out[0], bf16_to_f32(f32_to_bf16(1e30f)));
}

TEST(Gather, EveryTypeThatCanBeWritten) {
  const size_t row_values = 512, rows = 5;
  const auto values = random_floats(rows * row_values, 1);
  const std::vector<int32_t> ids = {4, 4, 0, 3};
  for (const DTypeInfo& info : dtype_table()) {
    if (!can_quantize(info.dtype)) continue;
    const size_t row_bytes = *dtype_bytes(info.dtype, row_values);
    std::vector<std::byte> table(rows * row_bytes);
    from_float(info.dtype, values.data(), table.data(), values.size());
    std::vector<float> got(ids.size() * row_values), want(row_values);
    gather_rows({info.dtype, table, row_values}, ids, got.data());
    for (size_t i = 0; i < ids.size(); ++i) {
      to_float(info.dtype, table.data() + static_cast<size_t>(ids[i]) * row_bytes, want.data(), row_values);
      EXPECT_EQ(first_difference(want.data(), got.data() + i * row_values, row_values), row_values)
          << info.name;
    }
  }
}

TEST(Gather, NothingAskedNothingWritten) {
  float out = 7;
  gather_rows({DType::kF32, {}, 4}, {}, &out);
  EXPECT_EQ(out, 7);
}

TEST(GatherDeathTest, RowsThatAreNotThere) {
  const float table[] = {1, 2, 3, 4};
  float out[2];
  const auto gather = [&](int32_t id) {
    gather_rows({DType::kF32, std::as_bytes(std::span(table)), 2}, {&id, 1}, out);
  };
  EXPECT_DEATH(gather(2), "row 2 of a table of 2 rows");
  EXPECT_DEATH(gather(-1), "row -1");
}

}  // namespace
}  // namespace butterfly::kernels
