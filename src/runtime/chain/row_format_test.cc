#include "runtime/chain/row_format.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace butterfly::runtime {
namespace {

std::vector<float> round_trip(const RowFormat& format, std::span<const float> rows) {
  std::vector<std::byte> bytes(format.row_bytes(rows.size()));
  format.encode(rows, bytes);
  std::vector<float> back(rows.size());
  format.decode(bytes, back);
  return back;
}

TEST(RowFormat, TheDefaultIsExactAndTheFirst) {
  EXPECT_TRUE(row_formats()[0].is_exact());
  for (const RowFormat& format : row_formats()) {
    EXPECT_EQ(&find_row_format(format.name), &format);
    EXPECT_EQ(format.is_exact(), &format == &row_formats()[0]);
  }
  EXPECT_THROW(find_row_format("f64"), Error);
}

TEST(RowFormat, SizesOfARow) {
  EXPECT_EQ(find_row_format("f32").row_bytes(2048), 8192u);
  EXPECT_EQ(find_row_format("f16").row_bytes(2048), 4096u);
  EXPECT_EQ(find_row_format("int8").row_bytes(2048), 2176u);
  EXPECT_EQ(find_row_format("f16").why_not(2047), "");
  EXPECT_NE(find_row_format("int8").why_not(2047), "");
}

TEST(RowFormat, ExactRowsKeepEveryBit) {
  std::vector<float> rows(1024);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::bit_cast<float>(static_cast<uint32_t>(random_u64(1, 2, i)));  // NaNs and infinities too
  const auto back = round_trip(find_row_format("f32"), rows);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(rows[i]));
}

TEST(RowFormat, LossyRowsStayNearAndFinite) {
  std::vector<float> rows(4096);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = (2 * random_uniform(1, 3, i) - 1) * (i / 32 % 5 == 0 ? 1e6f : 0.7f);
  const auto half = round_trip(find_row_format("f16"), rows);
  const auto eight = round_trip(find_row_format("int8"), rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(std::isfinite(half[i]) && std::isfinite(eight[i])) << rows[i];
    float largest = 0;
    for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::abs(rows[j]));
    EXPECT_LE(std::abs(eight[i] - rows[i]), largest / 127) << rows[i];
    if (std::abs(rows[i]) > 60000) continue;
    EXPECT_LE(std::abs(half[i] - rows[i]), std::abs(rows[i]) / 2048 + 1e-7f);
  }
}

// So the tokens of a text do not depend on who else is in its steps, whatever the format.
RC_GTEST_PROP(RowFormat, ARowsBytesDependOnThatRowAlone, ()) {
  constexpr size_t kDim = 64;
  const auto rows = static_cast<size_t>(*rc::gen::inRange(1, 6));
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  std::vector<float> values(rows * kDim);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 3 * random_uniform(seed, 1, i) - 1.5f;
  for (const RowFormat& format : row_formats()) {
    std::vector<std::byte> all(rows * format.row_bytes(kDim)), one(format.row_bytes(kDim));
    format.encode(values, all);
    for (size_t row = 0; row < rows; ++row) {
      format.encode(std::span(values).subspan(row * kDim, kDim), one);
      RC_ASSERT(std::equal(one.begin(), one.end(), all.begin() + static_cast<ptrdiff_t>(row * one.size())));
    }
  }
}

}  // namespace
}  // namespace butterfly::runtime
