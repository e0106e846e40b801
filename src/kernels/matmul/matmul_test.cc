// Products of every type against the plain loops, bit for bit, over targets, batch sizes and splits.
#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/target.h"
#include "kernels/testing/matmul_samples.h"

namespace butterfly::kernels {
namespace {

class MatmulTypes : public ::testing::TestWithParam<DType> {};

TEST_P(MatmulTypes, EveryTargetAndShapeEqualsThePlainLoops) {
  const DType dtype = GetParam();
  const size_t block = dtype_info(dtype).block_values;
  for (size_t cols : {block == 1 ? size_t{1} : block, block == 1 ? size_t{67} : 3 * block})
    for (int64_t rows : {1, 15, 16, 17, 32, 83, 150}) {
      const Tensor w = random_weights(dtype, rows, static_cast<int64_t>(cols), 11);
      const PackedMatrix packed(w);
      for (size_t m : {1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 21, 40}) {
        const Acts acts = random_acts(packed.act(), m, cols, 5);
        const auto want = bits(truth(w, acts, m));
        for_each_target([&](const std::string& target) {
          std::vector<float> y(m * packed.rows(), NAN);
          matmul(packed, acts.data.data(), acts.stride, m, y.data(), packed.rows(), 0, packed.rows());
          ASSERT_EQ(bits(y), want) << dtype_name(dtype) << " " << target << " rows " << rows << " cols "
                                   << cols << " m " << m;
        });
      }
    }
}

// Long enough for whatever a kernel keeps in rings and blocks of columns to come round.
TEST_P(MatmulTypes, LongRowsEqualThePlainLoops) {
  const DType dtype = GetParam();
  const size_t block = dtype_info(dtype).block_values;
  const size_t cols = block == 1 ? 701 : block == 32 ? 41 * 32 : 5 * block;
  const Tensor w = random_weights(dtype, 49, static_cast<int64_t>(cols), 17);
  const PackedMatrix packed(w);
  for (size_t m : {5, 6, 8, 12, 14, 16, 18, 33}) {
    const Acts acts = random_acts(packed.act(), m, cols, 23);
    const auto want = bits(truth(w, acts, m));
    for_each_target([&](const std::string& target) {
      std::vector<float> y(m * packed.rows(), NAN);
      matmul(packed, acts.data.data(), acts.stride, m, y.data(), packed.rows(), 0, packed.rows());
      ASSERT_EQ(bits(y), want) << dtype_name(dtype) << " " << target << " m " << m;
    });
  }
}

TEST_P(MatmulTypes, ARowAloneEqualsTheRowInABatch) {
  const DType dtype = GetParam();
  const size_t cols = 512;
  const Tensor w = random_weights(dtype, 100, cols, 3);
  const PackedMatrix packed(w);
  for (size_t m : {2, 7, 64, 200}) {
    const Acts acts = random_acts(packed.act(), m, cols, m);
    std::vector<float> together(m * 100), alone(m * 100);
    matmul(packed, acts.data.data(), acts.stride, m, together.data(), 100, 0, 100);
    for (size_t i = 0; i < m; ++i)
      matmul(packed, acts.data.data() + i * acts.stride, acts.stride, 1, alone.data() + i * 100, 100, 0, 100);
    EXPECT_EQ(bits(together), bits(alone)) << m;
    // Any split over threads: panels in pieces.
    std::vector<float> pieces(m * 100);
    for (size_t begin = 0; begin < 100; begin += 32)
      matmul(packed, acts.data.data(), acts.stride, m, pieces.data(), 100, begin,
             std::min<size_t>(100, begin + 32));
    EXPECT_EQ(bits(together), bits(pieces)) << m;
  }
}

class QuantisedTypes : public ::testing::TestWithParam<DType> {};

TEST_P(QuantisedTypes, ExtremeQuantsDoNotOverflow) {
  // All weights at one end of their range against activations at theirs: the largest sums that can occur.
  const DType dtype = GetParam();
  const size_t cols = 512;
  for (uint8_t fill : {0x00, 0x7f, 0x80, 0xff}) {
    Tensor w = Tensor::zeros(dtype, {16, static_cast<int64_t>(cols)});
    std::fill_n(reinterpret_cast<uint8_t*>(w.raw()), w.bytes(), fill);
    const PackedMatrix packed(w);
    for (float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(cols, sign);
      constexpr size_t kRows = 20;  // enough for tiles; all of them equal
      Acts acts{act_layout(packed.act(), cols).row_bytes, {}};
      acts.data = Buffer::allocate(kRows * acts.stride);
      for (size_t m = 0; m < kRows; ++m)
        quantize_activation(packed.act(), x.data(), cols, acts.data.data() + m * acts.stride);
      std::vector<float> want = truth(w, acts, 1);
      for_each_target([&](const std::string& target) {
        std::vector<float> one(16), many(kRows * 16);
        matmul(packed, acts.data.data(), acts.stride, 1, one.data(), 16, 0, 16);
        matmul(packed, acts.data.data(), acts.stride, kRows, many.data(), 16, 0, 16);
        EXPECT_EQ(std::memcmp(one.data(), many.data() + (kRows - 1) * 16, sizeof(float) * 16), 0) << target;
        const auto& y = one;
        for (size_t i = 0; i < 16; ++i) {
          if (std::isnan(want[i])) {
            EXPECT_TRUE(std::isnan(y[i])) << target;
          } else {
            EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want[i]))
                << target << " " << int(fill);
          }
        }
      });
    }
  }
}

TEST_P(MatmulTypes, IsCloseToTheProductInDouble) {
  const DType dtype = GetParam();
  const size_t cols = 512, rows = 40;
  const Tensor w = random_weights(dtype, rows, cols, 9);
  std::vector<float> values(rows * cols);
  to_float(dtype, w.raw(), values.data(), values.size());
  const PackedMatrix packed(w);
  std::vector<float> x(cols);
  for (size_t j = 0; j < cols; ++j) x[j] = random_normal(4, 3, j);
  const Acts acts = random_acts(packed.act(), 1, cols, 4);  // the same values: stream 3
  std::vector<float> y(rows);
  matmul(packed, acts.data.data(), acts.stride, 1, y.data(), rows, 0, rows);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (size_t j = 0; j < cols; ++j) {
      sum += double(values[r * cols + j]) * x[j];
      squares += double(values[r * cols + j]) * values[r * cols + j];
    }
    // Rounding activations to 8 bits: about 1/127/sqrt(12) of the largest value (here < 4.5) per term.
    const double tolerance = packed.act() == ActKind::kF32 ? 1e-4 : 5 * std::sqrt(squares) * 4.5 / 127 / 3.46;
    EXPECT_NEAR(y[r], sum, tolerance) << dtype_name(dtype) << " row " << r;
  }
}

std::vector<DType> quantised_types() {
  std::vector<DType> types;
  for (const QuantType& type : quant_table()) types.push_back(type.dtype);
  return types;
}

std::string name_of(const ::testing::TestParamInfo<DType>& test) {
  return std::string(dtype_name(test.param));
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTypes, ::testing::ValuesIn(matmul_types()), name_of);
INSTANTIATE_TEST_SUITE_P(All, QuantisedTypes, ::testing::ValuesIn(quantised_types()), name_of);

TEST(Pack, UnpackingAPanelGivesTheBlocksBack) {
  for (const PackFormat& format : pack_table()) {
    if (!dtype_info(format.dtype).quantised()) continue;
    const Tensor w = random_weights(format.dtype, 5, 512, 21);
    std::vector<std::byte> panel_data(format.panel_bytes(512));
    const size_t row_bytes = w.bytes() / 5;
    format.pack(w.raw(), row_bytes, 5, 512, panel_data.data());
    const size_t block_values = dtype_info(format.dtype).block_values;
    for (size_t row = 0; row < kPanelRows; ++row)
      for (size_t b = 0; b < 512 / block_values; ++b) {
        IntBlock got{}, want{};
        format.unpack(panel_data.data(), 512, row, b, &got);
        if (row < 5)
          quant_type(format.dtype)
              .unpack(w.raw() + row * row_bytes + b * dtype_info(format.dtype).block_bytes, &want);
        EXPECT_EQ(got.dmin, want.dmin);
        for (size_t i = 0; i < block_values; ++i) {
          if (row >= 5) {  // rows that are missing are zeros
            ASSERT_EQ(got.d * static_cast<float>(got.q[i]), 0) << dtype_name(format.dtype);
            continue;
          }
          ASSERT_EQ(got.d, want.d);
          ASSERT_EQ(got.q[i], want.q[i]) << dtype_name(format.dtype) << " row " << row << " value " << i;
        }
      }
  }
}

TEST(Pack, TypesWithoutAPanelKeepTheirFileMemory) {
  const Tensor w = random_weights(DType::kQ2_K, 20, 256, 1);
  const PackedMatrix packed(w);
  EXPECT_FALSE(packed.repacked());
  EXPECT_EQ(packed.panel(0), w.raw());
  EXPECT_THROW(PackedMatrix(Tensor::zeros(DType::kI32, {4, 4})), std::runtime_error);
}

TEST(ActivationRows, EveryTargetEqualsThePlainLoop) {
  for (ActKind kind : {ActKind::kQ8x32, ActKind::kQ8x64, ActKind::kQ8x128, ActKind::kQ8x256}) {
    const size_t k = 1024;
    std::vector<float> x(k);
    for (size_t i = 0; i < k; ++i) x[i] = random_normal(1, 1, i) * (i < 300 ? 1e-3f : 50.0f);
    for (size_t i = 512; i < 768; ++i) x[i] = 0;         // a block of zeros
    for (size_t i = 768; i < 1024; ++i) x[i] *= 1e-40f;  // denormals
    for (float odd : {0.0f, INFINITY, -INFINITY, NAN}) {
      x[40] = odd;
      const size_t bytes = act_layout(kind, k).row_bytes;
      const Buffer want = Buffer::allocate(bytes);
      ref::quantize_activation(kind, x.data(), k, want.data());
      for_each_target([&](const std::string& target) {
        const Buffer got = Buffer::allocate(bytes);
        quantize_activation(kind, x.data(), k, got.data());
        EXPECT_EQ(std::memcmp(got.data(), want.data(), bytes), 0) << target << " " << odd;
      });
    }
  }
}

TEST(ActivationRows, HandValues) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;
  x[1] = -127.0f;
  x[2] = 0.5f;  // to even: 0
  x[3] = 1.5f;  // to even: 2
  x[16] = -63.4f;
  const Buffer row = Buffer::allocate(act_layout(ActKind::kQ8x32, 32).row_bytes);
  quantize_activation(ActKind::kQ8x32, x.data(), 32, row.data());
  const auto* q = reinterpret_cast<const int8_t*>(row.data());
  const ActLayout layout = act_layout(ActKind::kQ8x32, 32);
  EXPECT_EQ(q[0], 127);
  EXPECT_EQ(q[1], -127);
  EXPECT_EQ(q[2], 0);
  EXPECT_EQ(q[3], 2);
  EXPECT_EQ(q[16], -63);
  EXPECT_EQ(*reinterpret_cast<const float*>(row.data() + layout.scales_offset), 1.0f);
  const auto* sums = reinterpret_cast<const int16_t*>(row.data() + layout.sums_offset);
  EXPECT_EQ(sums[0], 2);
  EXPECT_EQ(sums[1], -63);
}

}  // namespace
}  // namespace butterfly::kernels
