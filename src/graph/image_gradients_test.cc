// Gradients of the image ops against finite differences.
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/testing/gradient_check.h"

namespace butterfly::graph {
namespace {

using testing::GradientCheck;
using Inputs = std::vector<ValueId>;

TEST(ImageGradients, Conv2d) {
  struct Case {
    kernels::Conv2d conv;
    int64_t height, width;
  };
  const Case cases[] = {
      {{.in_c = 2,
        .out_c = 3,
        .kernel_h = 3,
        .kernel_w = 3,
        .pad_top = 1,
        .pad_left = 1,
        .pad_bottom = 1,
        .pad_right = 1},
       4,
       5},
      {{.in_c = 4,
        .out_c = 6,
        .kernel_h = 3,
        .kernel_w = 2,
        .stride_h = 2,
        .stride_w = 1,
        .pad_top = 1,
        .dilation_w = 2,
        .groups = 2},
       5,
       6},
      {{.in_c = 3, .out_c = 3, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .groups = 3},
       5,
       5},
  };
  for (const Case& it : cases) {
    GradientCheck c;
    c.input({2, it.height, it.width, static_cast<int64_t>(it.conv.in_c)});
    const Parameter& w =
        c.parameter({static_cast<int64_t>(it.conv.out_c), static_cast<int64_t>(it.conv.kernel_h),
                     static_cast<int64_t>(it.conv.kernel_w), static_cast<int64_t>(it.conv.group_in())});
    const Parameter& bias = c.parameter({static_cast<int64_t>(it.conv.out_c)});
    c.check([&](Graph& g, const Inputs& x) { return conv2d(g, x[0], it.conv, w, bias, false, "conv"); });
  }
}

TEST(ImageGradients, Conv2dWithRelu) {
  GradientCheck c;
  c.input({1, 4, 4, 2});
  const Parameter &w = c.parameter({3, 3, 3, 2}, 0.1f),
                  &bias = c.parameter({3}, 0, 5);  // far from the corner
  const kernels::Conv2d conv{.in_c = 2, .out_c = 3, .kernel_h = 3, .kernel_w = 3};
  c.check([&](Graph& g, const Inputs& x) { return conv2d(g, x[0], conv, w, bias, true, "conv"); });
}

TEST(ImageGradients, Pools) {
  const kernels::Pool2d pool{.kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .pad_top = 1};
  GradientCheck c;
  c.input({2, 5, 6, 3}, 3);  // values further apart than the steps
  c.check([&](Graph& g, const Inputs& x) { return max_pool2d(g, x[0], pool, "max"); }, 1e-3f, 1e-2);
  c.check([&](Graph& g, const Inputs& x) { return avg_pool2d(g, x[0], pool, "avg"); });
}

// The zeros of a relu before a max pool are set on the pool's result, where that is all that reads it;
// elsewhere on every value. Either way the gradient is the same.
TEST(ImageGradients, AReluBeforeAMaxPoolCostsWhatThePoolGives) {
  const kernels::Pool2d pool{.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_top = 1};
  for (const bool conv : {false, true}) {
    GradientCheck c;
    c.input({2, 7, 8, 3}, 3);
    const Parameter &w = c.parameter({3, 1, 1, 3}), &bias = c.parameter({3});
    const kernels::Conv2d plain{.in_c = 3, .out_c = 3, .kernel_h = 1, .kernel_w = 1};
    const auto rectified = [&](Graph& g, ValueId x) {
      return conv ? conv2d(g, x, plain, w, bias, true, "conv") : relu(g, x, "relu");
    };
    const auto once = [&](Graph& g, const Inputs& x) {
      return max_pool2d(g, rectified(g, x[0]), pool, "max");
    };
    const auto twice = [&](Graph& g, const Inputs& x) {
      const ValueId y = rectified(g, x[0]);
      return add_scaled(g, max_pool2d(g, y, pool, "max"), avg_pool2d(g, y, pool, "avg"), 0, "sum");
    };
    if (!conv) {
      GradientCheck alone;  // has no parameters that would wait for gradients
      alone.input({2, 7, 8, 3}, 3);
      alone.check(once, 1e-3f, 1e-2);
    }
    const auto fast = c.gradients_of(once, 1);
    EXPECT_FALSE(fast.empty());
    EXPECT_EQ(fast, c.gradients_of(twice, 1));

    const auto masked = [&](const auto& build) {
      Graph g;
      const ValueId x = g.input("x", {Elem::kF32, {2, 7, 8, 3}});
      const ValueId y = build(g, Inputs{x});
      const ValueId target = g.input("target", g.type(y)), factor = g.input("factor", {Elem::kF32, {1}});
      gradients(g, mse(g, y, target, factor, "loss"), {.inputs = {x}});
      size_t values = 0;
      for (const Node& node : g.nodes())
        if (node.op->name == "relu_grad")
          values += static_cast<size_t>(g.type(node.outputs[0]).shape.count());
      return values;
    };
    EXPECT_EQ(masked(once), 2u * 3 * 3 * 3);
    EXPECT_EQ(masked(twice), 2u * 7 * 8 * 3);
  }
}

TEST(ImageGradients, BatchNorm) {
  GradientCheck c;
  c.input({3, 2, 2, 4}, 1, 0.5f);
  const Parameter &w = c.parameter({4}, 0.3f, 1), &bias = c.parameter({4});
  Parameter mean{.name = "mean", .value = Tensor::zeros(DType::kF32, {4})}, variance = mean;
  variance.value = Tensor::zeros(DType::kF32, {4});
  c.check([&](Graph& g, const Inputs& x) {
    return batch_norm(g, x[0], {&w, &bias, &mean, &variance}, 1e-5f, true, "norm");
  });
}

TEST(ImageGradients, GroupNorm) {
  for (const size_t groups : {1, 2, 4}) {
    GradientCheck c;
    c.input({2, 3, 3, 4}, 1, 0.5f);
    const Parameter &w = c.parameter({4}, 0.3f, 1), &bias = c.parameter({4});
    c.check([&](Graph& g, const Inputs& x) { return group_norm(g, x[0], w, bias, groups, 1e-5f, "norm"); });
  }
}

TEST(ImageGradients, Softmax) {
  GradientCheck c;
  c.input({3, 7}, 1.5f);
  c.check([&](Graph& g, const Inputs& x) { return softmax(g, x[0], "softmax"); });
}

TEST(ImageGradients, OneResultOnAnyNumberOfThreads) {
  GradientCheck c;
  c.input({6, 12, 12, 8});
  const Parameter &w = c.parameter({16, 3, 3, 8}, 0.1f), &bias = c.parameter({16}),
                  &scale_values = c.parameter({16}, 0.1f, 1), &shift = c.parameter({16}),
                  &fc = c.parameter({10, 400}, 0.1f);
  Parameter mean{
      .name = "mean", .value = Tensor::zeros(DType::kF32, {16}), .trainable = true, .statistic = true};
  Parameter variance{
      .name = "variance", .value = Tensor::zeros(DType::kF32, {16}), .trainable = true, .statistic = true};
  const kernels::Conv2d conv{.in_c = 8, .out_c = 16, .kernel_h = 3, .kernel_w = 3};
  const auto build = [&](Graph& g, const Inputs& in) {
    ValueId x = conv2d(g, in[0], conv, w, bias, true, "conv");
    x = batch_norm(g, x, {&scale_values, &shift, &mean, &variance}, 1e-5f, true, "norm");
    x = group_norm(g, max_pool2d(g, x, {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2}, "pool"),
                   scale_values, shift, 4, 1e-5f, "group");
    return linear(g, x, fc, {}, "fc");
  };
  const auto one = c.gradients_of(build, 1);
  for (const size_t threads : {2, 3}) EXPECT_EQ(c.gradients_of(build, threads), one) << threads;
}

TEST(ImageGradients, ErrorsAreInWords) {
  Graph g;
  GradientCheck c;
  const Parameter& w = c.parameter({3, 5, 5, 2});
  const ValueId x = g.input("x", {Elem::kF32, {1, 4, 4, 2}});
  try {
    conv2d(g, x, {.in_c = 2, .out_c = 3, .kernel_h = 5, .kernel_w = 5}, w, {}, false, "c1");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[conv2d] c1: a kernel that reaches over 5 x 5 does not fit an image of 4 x 4");
  }
}

}  // namespace
}  // namespace butterfly::graph
