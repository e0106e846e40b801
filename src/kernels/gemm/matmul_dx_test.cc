// Gradients through packed weights: the numbers of the file, and the bits of one plain product with them.
#include "kernels/gemm/matmul_dx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/matmul/unpack_rows.h"
#include "kernels/quant/quant.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {
namespace {

std::vector<DType> multiplied_types() {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBF16};
  for (const QuantType& type : quant_table())
    if (can_quantize(type.dtype)) types.push_back(type.dtype);
  return types;
}

std::vector<float> waves(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i + 1));
  return values;
}

struct Sample {
  Sample(DType dtype, size_t rows, size_t cols) : floats(rows * cols) {
    stored = Tensor::zeros(dtype, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
    from_float(dtype, waves(rows * cols, 0.37f).data(), stored.raw(), floats.size());
    to_float(dtype, stored.raw(), floats.data(), floats.size());
    packed = PackedMatrix(stored);
  }
  Tensor stored;
  std::vector<float> floats;
  PackedMatrix packed;
};

TEST(UnpackRows, GivesTheNumbersOfTheFile) {
  for (const DType dtype : multiplied_types()) {
    const Sample sample(dtype, 37, 1024);
    std::vector<float> part(13 * 256);
    unpack_rows(sample.packed, 20, 33, 512, 768, part.data(), 256);
    for (size_t r = 0; r < 13; ++r)
      for (size_t c = 0; c < 256; ++c)
        ASSERT_EQ(part[r * 256 + c], sample.floats[(20 + r) * 1024 + 512 + c])
            << dtype_name(dtype) << " row " << r << " column " << c;
  }
}

TEST(MatmulDx, HasTheBitsOfOnePlainProduct) {
  for (const DType dtype : multiplied_types())
    for (const size_t rows : {37, 300}) {
      const Sample sample(dtype, rows, 768);
      for (const size_t m : {1, 33}) {
        const std::vector<float> dy = waves(m * rows, 0.11f), before = waves(m * 768, 0.05f);
        for (const bool accumulate : {false, true}) {
          std::vector<float> want = before;
          ref::gemm({.m = m,
                     .n = 768,
                     .k = rows,
                     .a = {dy.data(), rows},
                     .b = {sample.floats.data(), 768},
                     .c = want.data(),
                     .c_stride = 768,
                     .accumulate = accumulate});
          for (const size_t threads : {1, 3}) {
            ThreadPool pool(threads);
            for_each_target([&](const std::string& target) {
              std::vector<float> found = before;
              matmul_dx(sample.packed, dy.data(), rows, m, found.data(), 768, accumulate, pool);
              ASSERT_EQ(found, want) << dtype_name(dtype) << " " << target << " " << m << " x " << rows
                                     << ", threads " << threads;
            });
          }
        }
      }
    }
}

}  // namespace
}  // namespace butterfly::kernels
