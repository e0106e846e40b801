// Gradients of norms: differences of the forward functions, then every target, shape and thread count against
// the plain loops.
#include "kernels/norm/norm_backward.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/simd/position_block.h"
#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

TEST(ColumnSums, HandValues) {
  const Floats x = {1, 2, -1, 3, 4, -1};  // two rows of two, and a column that does not belong
  Floats out = {100, 200};
  ref::column_sums(x.data(), 2, 2, 3, true, out.data());
  EXPECT_EQ(out, (Floats{104, 206}));
  ref::column_sums(x.data(), 2, 2, 3, false, out.data());
  EXPECT_EQ(out, (Floats{4, 6}));
}

TEST(ColumnSums, BlocksAreAddedInOrder) {
  // In one chain the ones would vanish beside 2^24; the second block adds them up first.
  Floats x(kPositionBlock + 2, 0.0f);
  x[0] = 0x1p24f;
  x[kPositionBlock] = x[kPositionBlock + 1] = 1;
  float out = 0;
  ref::column_sums(x.data(), x.size(), 1, 1, false, &out);
  EXPECT_EQ(out, 0x1p24f + 2);
}

TEST(NormBackward, GradientsAreThoseOfTheForwardPass) {
  const size_t rows = 3, cols = 50;
  Floats x = random_floats(rows * cols, 1, 2.0f), weight = random_floats(cols, 2),
         bias = random_floats(cols, 3);
  const Floats dy = random_floats(rows * cols, 4);
  const float eps = 1e-2f;
  for (bool layer : {true, false}) {
    Floats dx(x.size()), dweight(cols), dbias(cols);
    const NormGradient job{.rows = rows,
                           .cols = cols,
                           .eps = eps,
                           .x = x.data(),
                           .weight = weight.data(),
                           .dy = dy.data(),
                           .dx = dx.data(),
                           .dweight = dweight.data(),
                           .dbias = layer ? dbias.data() : nullptr};
    layer ? ref::layer_norm_backward(job) : ref::rms_norm_backward(job);
    const auto run = [&] {
      Floats y(x.size());
      for (size_t r = 0; r < rows; ++r)
        layer ? ref::layer_norm(&x[r * cols], weight.data(), bias.data(), eps, &y[r * cols], cols)
              : ref::rms_norm(&x[r * cols], weight.data(), eps, &y[r * cols], cols);
      return y;
    };
    expect_gradient(x, dx, dy, 1e-2f, 2e-3, 1, run);
    expect_gradient(weight, dweight, dy, 1e-1f, 1e-3, 1, run);
    if (layer) expect_gradient(bias, dbias, dy, 1e-1f, 1e-3, 1, run);
  }
}

// Runs of columns that are normalised alone: as if each were a matrix of its own.
TEST(NormBackward, PartsOfRows) {
  constexpr size_t kRows = 270, kCols = 21, kStride = 50, kAt = 17;
  const Floats x = random_floats(kRows * kStride, 1), dy = random_floats(kRows * kStride, 2),
               weight = random_floats(kCols, 3), start = random_floats(kRows * kStride, 4);
  const auto part = [&](const Floats& from) {
    Floats to;
    for (size_t row = 0; row < kRows; ++row)
      to.insert(to.end(), &from[row * kStride + kAt], &from[row * kStride + kAt] + kCols);
    return to;
  };
  const Floats part_x = part(x), part_dy = part(dy);
  for_each_target([&](const std::string& target) {
    for (const bool layer : {true, false}) {
      const auto plain = layer ? ref::layer_norm_backward : ref::rms_norm_backward;
      const auto fast = layer ? layer_norm_backward : rms_norm_backward;
      ThreadPool pool(2);
      Floats want(part_x.size()), want_w(kCols), want_b(kCols);
      NormGradient job{.rows = kRows,
                       .cols = kCols,
                       .eps = 1e-5f,
                       .x = part_x.data(),
                       .weight = weight.data(),
                       .dy = part_dy.data(),
                       .dx = want.data(),
                       .dweight = want_w.data(),
                       .dbias = want_b.data()};
      plain(job);
      job.stride = kStride;
      job.x = x.data() + kAt;
      job.dy = dy.data() + kAt;
      for (const bool by_reference : {true, false}) {
        Floats dx = start, w(kCols), b(kCols);
        job.dx = dx.data() + kAt;
        job.dweight = w.data();
        job.dbias = b.data();
        by_reference ? plain(job) : fast(job, pool);
        EXPECT_EQ(part(dx), want) << target;
        EXPECT_EQ(w, want_w) << target;
        EXPECT_EQ(b, want_b) << target;
        for (size_t i = 0; i < dx.size(); ++i)
          ASSERT_TRUE((i % kStride >= kAt && i % kStride < kAt + kCols) || dx[i] == start[i]) << target;
      }
    }
  });
}

TEST(NormBackward, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string& target) {
    for (size_t rows : {0, 1, 3, 255, 257, 600})
      for (size_t cols : {1, 15, 16, 33, 64, 129, 300})
        for (bool layer : {true, false}) {
          const size_t threads = 1 + (rows + cols) % 3, offset = cols % 4;
          ThreadPool pool(threads);
          const size_t count = rows * cols;
          const OffsetFloats x(random_floats(5003, 1), count, offset);
          const OffsetFloats weight(random_floats(cols, 2), cols, (offset + 1) % 4);
          OffsetFloats dy(random_floats(4999, 3), count, (offset + 2) % 4), want(count, 0), got(count, 1);
          OffsetFloats want_w(random_floats(cols, 4), cols, 0), got_w(want_w), want_b(want_w), got_b(want_w);
          const auto job = [&](OffsetFloats& dx, OffsetFloats& w, OffsetFloats& b) {
            return NormGradient{.rows = rows,
                                .cols = cols,
                                .eps = 1e-5f,
                                .x = x.data(),
                                .weight = rows % 2 == 0 ? nullptr : weight.data(),
                                .dy = dy.data(),
                                .dx = dx.data(),
                                .dweight = w.data(),
                                .dbias = b.data(),
                                .accumulate = cols % 2 == 0};
          };
          const auto plain = layer ? ref::layer_norm_backward : ref::rms_norm_backward;
          const auto fast = layer ? layer_norm_backward : rms_norm_backward;
          plain(job(want, want_w, want_b));
          fast(job(rows % 4 == 3 ? dy : got, got_w, got_b), pool);
          const OffsetFloats& dx = rows % 4 == 3 ? dy : got;
          const std::string where = target + " rows " + std::to_string(rows) + " cols " +
                                    std::to_string(cols) + (layer ? " layer" : " rms");
          ASSERT_EQ(first_difference(want.data(), dx.data(), count), count) << where;
          ASSERT_EQ(first_difference(want_w.data(), got_w.data(), cols), cols) << where;
          ASSERT_EQ(first_difference(want_b.data(), got_b.data(), cols), cols) << where;
        }
  });
}

TEST(ColumnSums, EveryTargetIsThePlainLoop) {
  const auto values = wild_floats(4999, 7);
  for_each_target([&](const std::string& target) {
    for (size_t rows : {0, 1, 2, 255, 256, 257, 1000})
      for (size_t cols : {0, 1, 3, 15, 16, 17, 31, 32, 64, 65, 200})
        for (bool accumulate : {false, true}) {
          ThreadPool pool(1 + (rows + cols) % 3);
          const size_t stride = cols + rows % 3;
          const OffsetFloats x(values, rows * stride, cols % 4);
          OffsetFloats want(random_floats(200, 1), cols, 0), got(want);
          ref::column_sums(x.data(), rows, cols, stride, accumulate, want.data());
          column_sums(x.data(), rows, cols, stride, accumulate, got.data(), pool);
          ASSERT_EQ(first_difference(want.data(), got.data(), cols), cols)
              << target << " rows " << rows << " cols " << cols;
        }
  });
}

}  // namespace
}  // namespace butterfly::kernels
