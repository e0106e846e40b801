// Products: hand values and the bits of matmul(), then every target, shape and thread count against the plain
// loop, bit for bit.
#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(Gemm, HandValues) {
  const float a[] = {1, 2, 3, 4, 5, 6};      // [2, 3]
  const float b[] = {1, 0, -1, 2, 0.5f, 1};  // [3, 2]
  const float bias[] = {10, -20};
  float c[4] = {100, 200, 300, 400}, before[4];
  Gemm job{.m = 2, .n = 2, .k = 3, .a = {a, 3}, .b = {b, 2}, .c = c, .c_stride = 2, .accumulate = true};
  ref::gemm(job);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{100.5f, 207, 302, 416}));
  job.accumulate = false;
  job.epilogue = {bias, FusedActivation::kRelu, before};
  ref::gemm(job);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{10.5f, 0, 12, 0}));
  EXPECT_EQ(std::vector<float>(before, before + 4), (std::vector<float>{10.5f, -13, 12, -4}));
  // The transpose of both, read as transposed, is the same product.
  const float at[] = {1, 4, 2, 5, 3, 6}, bt[] = {1, -1, 0.5f, 0, 2, 1};
  job.a = {at, 2, true};
  job.b = {bt, 3, true};
  job.epilogue = {};
  ref::gemm(job);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{0.5f, 7, 2, 16}));
}

TEST(Gemm, HasTheBitsOfAPackedProduct) {
  const size_t m = 37, n = 83, k = 700;
  const auto x = random_floats(m * k, 1), w = random_floats(n * k, 2);
  Tensor weights = Tensor::zeros(DType::kF32, {static_cast<int64_t>(n), static_cast<int64_t>(k)});
  std::copy(w.begin(), w.end(), reinterpret_cast<float*>(weights.raw()));
  std::vector<float> want(m * n), got(m * n);
  matmul(PackedMatrix(weights), reinterpret_cast<const std::byte*>(x.data()), k * sizeof(float), m,
         want.data(), n, 0, n);
  gemm(
      {.m = m, .n = n, .k = k, .a = {x.data(), k}, .b = {w.data(), k, true}, .c = got.data(), .c_stride = n});
  EXPECT_EQ(first_difference(want.data(), got.data(), m * n), m * n);
}

TEST(Gemm, OfShardsHasTheBitsOfAPackedProduct) {
  for (size_t unit : {64, 256})
    for (size_t k : {40, 100, 700, 2816})
      for (size_t m : {1, 4, 5, 37}) {
        const size_t n = 83;
        const auto x = random_floats(m * k, 1), w = random_floats(n * k, 2);
        Tensor weights = Tensor::zeros(DType::kF32, {static_cast<int64_t>(n), static_cast<int64_t>(k)});
        std::copy(w.begin(), w.end(), reinterpret_cast<float*>(weights.raw()));
        const PackedMatrix packed(weights);
        std::vector<float> want(m * n), got(m * n, NAN);
        matmul_shards(packed, ShardCuts::whole(Shards(unit, k)), reinterpret_cast<const std::byte*>(x.data()),
                      k * sizeof(float), m, want.data(), n, 0, 0, n);
        gemm({.m = m,
              .n = n,
              .k = k,
              .a = {x.data(), k},
              .b = {w.data(), k, true},
              .c = got.data(),
              .c_stride = n,
              .shard_unit = unit});
        ASSERT_EQ(first_difference(want.data(), got.data(), m * n), m * n) << unit << " " << k << " " << m;
      }
}

struct Shape {
  size_t m, n, k;
  size_t shard_unit = 0;
};

// All transposes and starts of one shape with changing epilogues, strides and misalignment; the plain loop
// runs once, then every target by each number of threads.
void expect_plain(const Shape& s, std::vector<size_t> thread_counts, size_t offset) {
  const size_t extra = offset * 3;
  for (int variant = 0; variant < 8; ++variant) {
    const bool ta = variant & 1, tb = variant & 2, accumulate = variant & 4;
    if (accumulate && s.shard_unit != 0) continue;
    const size_t a_stride = (ta ? s.m : s.k) + extra, b_stride = (tb ? s.k : s.n) + extra;
    const size_t c_stride = s.n + extra;
    const OffsetFloats a(random_floats(997, 1), a_stride * (ta ? s.k : s.m), offset);
    const OffsetFloats b(random_floats(1009, 2), b_stride * (tb ? s.n : s.k), (offset + 1) % 4);
    const OffsetFloats bias(random_floats(s.n + 1, 3), s.n, offset);
    const OffsetFloats start(random_floats(991, 4), c_stride * s.m, 0);
    OffsetFloats want(start), want_before(start.size(), 0);
    const auto activation = static_cast<FusedActivation>((variant + s.m) % 3);
    const bool with_bias = (variant + s.n) % 2 == 1, with_before = (variant + s.k) % 2 == 1;
    Gemm job{.m = s.m,
             .n = s.n,
             .k = s.k,
             .a = {a.data(), a_stride, ta},
             .b = {b.data(), b_stride, tb},
             .c = want.data(),
             .c_stride = c_stride,
             .accumulate = accumulate,
             .epilogue = {with_bias ? bias.data() : nullptr, activation,
                          with_before ? want_before.data() : nullptr},
             .shard_unit = s.shard_unit};
    ref::gemm(job);
    for (size_t threads : thread_counts) {
      ThreadPool pool(threads);
      for_each_target([&](const std::string& target) {
        if (target == "ref") return;
        OffsetFloats got(start), got_before(start.size(), 1);
        job.c = got.data();
        if (with_before) job.epilogue.before = got_before.data();
        gemm(job, pool);
        const std::string where = target + " m " + std::to_string(s.m) + " n " + std::to_string(s.n) + " k " +
                                  std::to_string(s.k) + " variant " + std::to_string(variant) + " threads " +
                                  std::to_string(threads) + " offset " + std::to_string(offset);
        ASSERT_EQ(first_difference(want.data(), got.data(), start.size()), start.size()) << where;
        ASSERT_EQ(first_difference(want_before.data(), got_before.data(), start.size()), start.size())
            << where;
      });
    }
  }
}

TEST(Gemm, EveryTargetIsThePlainLoop) {
  for (size_t m : {0, 1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 29})
    for (size_t n : {0, 1, 7, 15, 16, 17, 31, 32, 33, 65})
      for (size_t k : {0, 1, 5, 19}) expect_plain({m, n, k}, {1 + (m + n + k) % 3}, (m + n) % 4);
}

TEST(Gemm, LongSumsAndManyBlocksAreThePlainLoop) {
  expect_plain({5, 40, 1100}, {1, 2, 3}, 0);
  expect_plain({61, 70, 530}, {1, 2, 3}, 1);
  expect_plain({200, 33, 300}, {1, 2, 3}, 2);
  expect_plain({17, 200, 259}, {1, 2, 3}, 3);
  expect_plain({30, 300, 40}, {1, 2}, 1);
  expect_plain({40, 70, 512}, {1, 2}, 0);  // rows that share sets of the first cache
  expect_plain({18, 70, 1024}, {1}, 0);    // all of them one
}

TEST(Gemm, ShardsAreThePlainLoop) {
  for (size_t m : {1, 3, 5, 15, 29})
    for (size_t n : {1, 17, 65})
      for (size_t k : {0, 5, 64, 65, 300, 512})
        expect_plain({m, n, k, 64}, {1 + (m + n + k) % 3}, (m + n) % 4);
  expect_plain({5, 40, 1100, 256}, {1, 2, 3}, 0);
  expect_plain({61, 70, 8 * 800, 64}, {1, 3}, 1);  // shards of more than one block
}

TEST(Gemm, NansOfShardsAreOneNan) {
  const size_t k = 1000;
  std::vector<float> a(2 * k, 1.0f), b(3 * k, 1.0f), c(6);
  a[0] = a[k + 999] = INFINITY;
  a[900] = a[k + 3] = -std::bit_cast<float>(0x7fc00123u);
  for_each_target([&](const std::string& target) {
    gemm({.m = 2,
          .n = 3,
          .k = k,
          .a = {a.data(), k},
          .b = {b.data(), 3},
          .c = c.data(),
          .c_stride = 3,
          .shard_unit = 64});
    for (float value : c) EXPECT_EQ(std::bit_cast<uint32_t>(value), kTreeNan) << target;
  });
}

TEST(Gemm, ShardsDoNotAccumulate) {
  float x = 1;
  EXPECT_DEATH(gemm({.m = 1,
                     .n = 1,
                     .k = 1,
                     .a = {&x, 1},
                     .b = {&x, 1},
                     .c = &x,
                     .c_stride = 1,
                     .accumulate = true,
                     .shard_unit = 64}),
               "starts from zero");
}

TEST(Gemm, WildValuesAreThePlainLoop) {
  const size_t m = 21, n = 50, k = 40;
  const auto a = wild_floats(m * k, 1), b = wild_floats(n * k, 2);
  std::vector<float> want(m * n), got(m * n);
  Gemm job{.m = m, .n = n, .k = k, .a = {a.data(), k}, .b = {b.data(), n}, .c = want.data(), .c_stride = n};
  ref::gemm(job);
  job.c = got.data();
  for_each_target([&](const std::string& target) {
    gemm(job);
    EXPECT_EQ(first_difference(want.data(), got.data(), m * n), m * n) << target;
  });
}

}  // namespace
}  // namespace butterfly::kernels
