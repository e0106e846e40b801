// Against ggml: its bytes give its floats, bit for bit, and our quantisers lose no more than its own.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/quant/quant.h"
#include "kernels/quant/testing/ggml_vectors.h"

namespace butterfly::kernels {
namespace {

using testing::GgmlVectors;
using testing::kVectorRows;
using testing::kVectorRowValues;

class GgmlVectorsTest : public ::testing::TestWithParam<QuantType> {
 protected:
  void SetUp() override {
    vectors_ = GgmlVectors::load();
    if (!vectors_) GTEST_SKIP() << "../shared/data/quant-vectors is not on this machine";
  }
  std::optional<GgmlVectors> vectors_;
};

TEST_P(GgmlVectorsTest, BytesGiveTheSameFloatBits) {
  const QuantType& type = GetParam();
  const auto bytes = vectors_->bytes(dtype_name(type.dtype));
  const auto expected = vectors_->dequantized(dtype_name(type.dtype));
  ASSERT_EQ(expected.size(), kVectorRows * kVectorRowValues);
  ASSERT_EQ(bytes.size(), dtype_bytes(type.dtype, expected.size()));
  std::vector<float> found(expected.size());
  type.dequantize(bytes.data(), found.data(), found.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
        << "row " << i / kVectorRowValues << " value " << i % kVectorRowValues << ": " << found[i]
        << " against " << expected[i];
}

double row_rms(const float* a, const float* b) {
  double sum = 0;
  for (size_t i = 0; i < kVectorRowValues; ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / kVectorRowValues);
}

class GgmlQuantisersTest : public GgmlVectorsTest {};

// The criterion, row by row and without slack: RMS error <= 1.02 x ggml's RMS error on the same row. Where
// ggml is exact, so are we.
TEST_P(GgmlQuantisersTest, LoseNoMoreThanGgml) {
  const QuantType& type = GetParam();
  const auto source = vectors_->source();
  const auto ggml = vectors_->dequantized(dtype_name(type.dtype));
  std::vector<std::byte> bytes(*dtype_bytes(type.dtype, source.size()));
  std::vector<float> ours(source.size());
  type.quantize(source.data(), bytes.data(), source.size());
  type.dequantize(bytes.data(), ours.data(), source.size());
  double ours_total =
      0;  // mean over rows of error / RMS of the row, rows of zeros left out: the README's figures
  double ggml_total = 0;
  size_t rows = 0;
  for (size_t row = 0; row < kVectorRows; ++row) {
    const size_t at = row * kVectorRowValues;
    const double our_error = row_rms(&ours[at], &source[at]);
    const double ggml_error = row_rms(&ggml[at], &source[at]);
    EXPECT_LE(our_error, 1.02 * ggml_error) << "row " << row;
    const double size = row_rms(&source[at], std::vector<float>(kVectorRowValues).data());
    if (size == 0) continue;
    ours_total += our_error / size;
    ggml_total += ggml_error / size;
    ++rows;
  }
  RecordProperty("relative_rms_ours", std::to_string(ours_total / rows));
  RecordProperty("relative_rms_ggml", std::to_string(ggml_total / rows));
  std::printf("%s: mean relative RMS error %.5f, ggml %.5f\n", std::string(dtype_name(type.dtype)).c_str(),
              ours_total / rows, ggml_total / rows);
}

// The vectors are older than MXFP4 and what stands behind it in the table: see hand_blocks_test.cc, and
// llamacpp_test for ggml itself.
std::vector<QuantType> types(bool only_writable) {
  std::vector<QuantType> types;
  for (const QuantType& type : quant_table())
    if (type.dtype < DType::kMXFP4 && (!only_writable || type.quantize != nullptr)) types.push_back(type);
  return types;
}

std::string name_of(const ::testing::TestParamInfo<QuantType>& row) {
  return std::string(dtype_name(row.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(AllTypes, GgmlVectorsTest, ::testing::ValuesIn(types(false)), name_of);
INSTANTIATE_TEST_SUITE_P(AllTypes, GgmlQuantisersTest, ::testing::ValuesIn(types(true)), name_of);

}  // namespace
}  // namespace butterfly::kernels
