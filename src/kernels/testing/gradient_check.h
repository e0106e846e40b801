// For tests of this folder: derivatives by central differences, with the function in plain floats.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace butterfly::kernels {

// d(sum of result * weights) / d(input[i]), by moving one input at a time. `run` fills the result from the
// input; sums are in double, so that the error is that of the kernel's own rounding over 2 * step.
template <class F>
double numeric_gradient(std::vector<float>& input, size_t i, const std::vector<float>& weights, float step,
                        F&& run) {
  const auto objective = [&] {
    const std::vector<float> result = run();
    EXPECT_EQ(result.size(), weights.size());
    double sum = 0;
    for (size_t j = 0; j < result.size(); ++j) sum += double(result[j]) * weights[j];
    return sum;
  };
  const float kept = input[i];
  input[i] = kept + step;
  const double up = input[i], above = objective();
  input[i] = kept - step;
  const double down = input[i], below = objective();
  input[i] = kept;
  return (above - below) / (up - down);
}

// Every stride-th value of `gradient` against the differences.
template <class F>
void expect_gradient(std::vector<float>& input, const std::vector<float>& gradient,
                     const std::vector<float>& weights, float step, double tolerance, size_t stride,
                     F&& run) {
  ASSERT_EQ(input.size(), gradient.size());
  for (size_t i = 0; i < input.size(); i += stride) {
    const double want = numeric_gradient(input, i, weights, step, run);
    ASSERT_NEAR(gradient[i], want, tolerance * (1 + std::fabs(want))) << "input " << i;
  }
}

}  // namespace butterfly::kernels
