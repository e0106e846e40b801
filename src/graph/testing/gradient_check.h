// For tests: the gradients of a small graph against differences of its results.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/ops.h"

namespace butterfly::graph::testing {

// Owns inputs and parameters of one small computation. check() builds it with a loss whose gradient with
// regard to every output is a known random number, and compares the gradient of each input and parameter
// value with a fourth-order central difference, summed in double.
class GradientCheck {
 public:
  explicit GradientCheck(uint64_t seed = 1) : seed_(seed) {}

  // Random values around `mean`. Returned references and indices stay good.
  Parameter& parameter(Shape shape, float deviation = 0.5f, float mean = 0);
  size_t input(Shape shape, float deviation = 0.5f, float mean = 0);
  size_t ids(std::vector<int32_t> values);  // integers, without a gradient

  using Build = std::function<ValueId(Graph& g, const std::vector<ValueId>& inputs)>;
  // `build` returns any value.
  void check(const Build& build, float step = 0.01f, double tolerance = 2e-3);
  // `build` returns a loss.
  void check_loss(const Build& build, float step = 0.01f, double tolerance = 2e-3);
  // All gradients as one array, for comparisons of bits.
  std::vector<float> gradients_of(const Build& build, size_t threads);

 private:
  struct Input {
    Elem elem;
    Shape shape;
    std::vector<float> floats;
    std::vector<int32_t> ints;
  };
  struct Run;
  void compare(const Build& build, bool loss, float step, double tolerance);
  std::vector<float> random(size_t count, float deviation, float mean);

  uint64_t seed_;
  uint64_t drawn_ = 0;
  std::deque<Parameter> parameters_;
  std::vector<Input> inputs_;
};

}  // namespace butterfly::graph::testing
