// Operations against the stored inputs and outputs of the ONNX operator tests, as far as ours express them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/testing/source_tree.h"
#include "graph/executor.h"
#include "graph/ops.h"
#include "kernels/optim/optimizer_update.h"

namespace butterfly::graph {
namespace {

using Json = nlohmann::json;

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t count(size_t from, size_t to) const {
    return std::accumulate(shape.begin() + static_cast<ptrdiff_t>(from),
                           shape.begin() + static_cast<ptrdiff_t>(to), int64_t{1}, std::multiplies<>());
  }
};

Array array_of(const Json& json) {
  Array array{json.at("shape").get<std::vector<int64_t>>(), {}};
  for (const Json& value : json.at("data")) array.values.push_back(value.get<float>());
  return array;
}

// Moves axis 1 (channels) behind the others, or back.
Array moved(const Array& from, bool last) {
  Array to = from;
  const int64_t n = from.shape[0], c = last ? from.shape[1] : from.shape.back();
  const int64_t p = static_cast<int64_t>(from.values.size()) / (n * c);
  to.shape.erase(to.shape.begin() + (last ? 1 : static_cast<ptrdiff_t>(from.shape.size()) - 1));
  to.shape.insert(last ? to.shape.end() : to.shape.begin() + 1, c);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < p; ++j)
      for (int64_t k = 0; k < c; ++k) {
        const auto first = static_cast<size_t>((i * c + k) * p + j),
                   behind = static_cast<size_t>((i * p + j) * c + k);
        to.values[last ? behind : first] = from.values[last ? first : behind];
      }
  return to;
}

struct Case {
  Json json;
  std::string name() const { return json.at("name"); }
  bool has(const char* key) const { return json.at("attributes").contains(key); }
  template <typename T>
  T attribute(const char* key, T otherwise) const {
    return json.at("attributes").value(key, otherwise);
  }
  Array input(size_t i) const { return array_of(json.at("inputs").at(i)); }
  Array output(size_t i) const { return array_of(json.at("outputs").at(i)); }
  size_t inputs() const { return json.at("inputs").size(); }
};

std::vector<Case> cases(const std::string& op) {
  std::ifstream in(shared_data("op-vectors") / (op + ".json"));
  std::vector<Case> all;
  if (!in) return all;
  for (const Json& json : Json::parse(in)) all.push_back({json});
  return all;
}

#define BF_CASES(op)          \
  const auto all = cases(op); \
  if (all.empty()) GTEST_SKIP() << "no operator vectors here"

Parameter parameter(const std::vector<float>& values, Shape shape) {
  Tensor tensor = Tensor::zeros(DType::kF32, shape);
  std::copy(values.begin(), values.end(), tensor.data<float>());
  return {.name = "p", .value = tensor};
}

Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(std::span<const int64_t>(sizes)); }

// The floats of what `build` makes of x.
std::vector<float> run(const std::vector<float>& x, Shape shape,
                       const std::function<ValueId(Graph&, ValueId)>& build) {
  Graph g;
  const ValueId in = g.input("x", {Elem::kF32, shape});
  const ValueId out = build(g, in);
  g.mark_output(out);
  Arena arena;
  ThreadPool pool(1);
  Executor executor(std::move(g), arena, pool);
  std::copy(x.begin(), x.end(), reinterpret_cast<float*>(executor.input(in)));
  executor.run(nullptr);
  const ValueType& type = executor.graph().type(out);
  return {executor.output(out), executor.output(out) + type.rows() * type.cols()};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-5 * std::max(1.0f, std::fabs(want[i]))) << name << " at " << i;
}

TEST(OpVectors, Norms) {
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
    BF_CASES(op);
    for (const Case& it : all) {
      const Array x = it.input(0);
      int64_t axis = it.attribute<int64_t>("axis", -1);
      if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
      const int64_t cols = x.count(static_cast<size_t>(axis), x.shape.size());
      const Parameter w = parameter(it.input(1).values, {cols});
      const Parameter bias = it.inputs() > 2 ? parameter(it.input(2).values, {cols}) : Parameter{};
      const float eps = it.attribute("epsilon", 1e-5f);
      expect_near(run(x.values, {static_cast<int64_t>(x.values.size()) / cols, cols},
                      [&](Graph& g, ValueId v) {
                        return op[0] == 'L' ? layer_norm(g, v, w, bias, eps, "n")
                                            : rms_norm(g, v, w, eps, "n");
                      }),
                  it.output(0).values, it.name());
    }
  }
}

TEST(OpVectors, Functions) {
  BF_CASES("Gelu");
  const auto flat = [](const Array& x, auto fn) {
    return run(x.values, {1, static_cast<int64_t>(x.values.size())},
               [&](Graph& g, ValueId v) { return fn(g, v, "f"); });
  };
  for (const Case& it : all)
    if (it.has("approximate")) expect_near(flat(it.input(0), gelu), it.output(0).values, it.name());
  for (const Case& it : cases("Swish")) expect_near(flat(it.input(0), silu), it.output(0).values, it.name());
  for (const Case& it : cases("Softmax")) {
    const Array x = it.input(0);
    if (it.has("axis")) continue;  // the last one only
    const int64_t cols = x.shape.back();
    expect_near(run(x.values, {static_cast<int64_t>(x.values.size()) / cols, cols},
                    [&](Graph& g, ValueId v) { return softmax(g, v, "f"); }),
                it.output(0).values, it.name());
  }
}

TEST(OpVectors, Gemm) {
  BF_CASES("Gemm");
  size_t done = 0;
  for (const Case& it : all) {
    const Array a = it.input(0), b = it.input(1), c = it.input(2);
    const int64_t n = b.shape[1], k = b.shape[0];
    if (it.has("alpha") || static_cast<int64_t>(c.values.size()) > n) continue;
    const Array rows = it.has("transA") ? moved({{1, a.shape[0], a.shape[1]}, a.values}, true) : a;
    const Array columns = moved({{1, k, n}, b.values}, true);  // W is [out, in]
    std::vector<float> bias(static_cast<size_t>(n), c.values[0]);
    if (c.values.size() > 1) bias = c.values;
    const Parameter w = parameter(columns.values, {n, k}), shift = parameter(bias, {n});
    expect_near(run(rows.values, {static_cast<int64_t>(a.values.size()) / k, k},
                    [&](Graph& g, ValueId v) { return linear(g, v, w, shift, "y"); }),
                it.output(0).values, it.name());
    ++done;
  }
  EXPECT_EQ(done, 3u);
}

// Explicit padding, or what keeps the size.
std::vector<int64_t> pads_of(const Case& it, const Array& x) {
  const auto kernel = it.attribute<std::vector<int64_t>>("kernel_shape", {});
  const auto strides = it.attribute<std::vector<int64_t>>("strides", {1, 1});
  const std::string kind = it.attribute<std::string>("auto_pad", "NOTSET");
  if (kind == "NOTSET") return it.attribute<std::vector<int64_t>>("pads", {0, 0, 0, 0});
  std::vector<int64_t> pads(4);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = x.shape[2 + i], out = (size + strides[i] - 1) / strides[i];
    const int64_t total = std::max<int64_t>(0, (out - 1) * strides[i] + kernel[i] - size);
    pads[i] = kind == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[i + 2] = total - pads[i];
  }
  return pads;
}

template <typename Window>
void fill_window(const Case& it, const Array& x, Window& window) {
  const auto kernel = it.attribute<std::vector<int64_t>>("kernel_shape", {});
  const auto strides = it.attribute<std::vector<int64_t>>("strides", {1, 1});
  const auto pads = pads_of(it, x);
  window.kernel_h = static_cast<size_t>(kernel[0]), window.kernel_w = static_cast<size_t>(kernel[1]);
  window.stride_h = static_cast<size_t>(strides[0]), window.stride_w = static_cast<size_t>(strides[1]);
  window.pad_top = static_cast<size_t>(pads[0]), window.pad_left = static_cast<size_t>(pads[1]);
  window.pad_bottom = static_cast<size_t>(pads[2]), window.pad_right = static_cast<size_t>(pads[3]);
}

TEST(OpVectors, Conv) {
  BF_CASES("Conv");
  for (const Case& it : all) {
    const Array x = moved(it.input(0), true), w = moved(it.input(1), true);
    kernels::Conv2d conv{.in_c = static_cast<size_t>(x.shape[3]), .out_c = static_cast<size_t>(w.shape[0])};
    fill_window(it, it.input(0), conv);
    const Parameter weight = parameter(w.values, shape_of(w.shape));
    expect_near(run(x.values, shape_of(x.shape),
                    [&](Graph& g, ValueId v) { return conv2d(g, v, conv, weight, {}, false, "y"); }),
                moved(it.output(0), true).values, it.name());
  }
}

TEST(OpVectors, Pools) {
  BF_CASES("MaxPool");
  size_t done = 0;
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool"})
    for (const Case& it : cases(op)) {
      if (it.has("ceil_mode") || it.has("dilations") || it.input(0).shape.size() != 4) continue;
      const Array x = moved(it.input(0), true);
      kernels::Pool2d pool;
      pool.count_padding = it.attribute<int64_t>("count_include_pad", 0) != 0;
      if (it.has("kernel_shape")) {
        fill_window(it, it.input(0), pool);
      } else {
        pool.kernel_h = static_cast<size_t>(x.shape[1]), pool.kernel_w = static_cast<size_t>(x.shape[2]);
      }
      expect_near(run(x.values, shape_of(x.shape),
                      [&](Graph& g, ValueId v) {
                        return op[0] == 'M' ? max_pool2d(g, v, pool, "y") : avg_pool2d(g, v, pool, "y");
                      }),
                  moved(it.output(0), true).values, it.name());
      ++done;
    }
  EXPECT_EQ(done, 11u);
}

TEST(OpVectors, BatchAndGroupNorm) {
  BF_CASES("BatchNormalization");
  for (const Case& it : all) {
    const Array x = moved(it.input(0), true);
    std::vector<Parameter> p;
    for (size_t i = 1; i < 5; ++i) p.push_back(parameter(it.input(i).values, {x.shape[3]}));
    expect_near(run(x.values, shape_of(x.shape),
                    [&](Graph& g, ValueId v) {
                      return batch_norm(g, v, {&p[0], &p[1], &p[2], &p[3]}, it.attribute("epsilon", 1e-5f),
                                        true, "y");
                    }),
                moved(it.output(0), true).values, it.name());
  }
  for (const Case& it : cases("GroupNormalization")) {
    const Array x = moved(it.input(0), true);
    const Parameter w = parameter(it.input(1).values, {x.shape[3]}),
                    bias = parameter(it.input(2).values, {x.shape[3]});
    expect_near(run(x.values, shape_of(x.shape),
                    [&](Graph& g, ValueId v) {
                      return group_norm(g, v, w, bias, it.attribute<size_t>("num_groups", 1),
                                        it.attribute("epsilon", 1e-5f), "y");
                    }),
                moved(it.output(0), true).values, it.name());
  }
}

TEST(OpVectors, CrossEntropy) {
  BF_CASES("SoftmaxCrossEntropyLoss");
  size_t done = 0;
  for (const Case& it : all) {
    if (it.inputs() > 2) continue;  // weights of classes
    const Array x = moved(it.input(0), true), y = it.input(1);
    const int64_t classes = x.shape.back(), rows = static_cast<int64_t>(y.values.size());
    const auto ignored = it.attribute<int64_t>("ignore_index", INT64_MIN);
    Graph g;
    const ValueId logits = g.input("x", {Elem::kF32, {rows, classes}}),
                  targets = g.input("y", {Elem::kI32, {rows}}), factor = g.input("factor", {Elem::kF32, {1}});
    const Loss loss = cross_entropy(g, logits, targets, factor, "loss");
    g.mark_output(loss.loss);
    g.mark_output(loss.rows);
    Arena arena;
    ThreadPool pool(1);
    Executor executor(std::move(g), arena, pool);
    std::copy(x.values.begin(), x.values.end(), reinterpret_cast<float*>(executor.input(logits)));
    float counted = 0;
    for (size_t i = 0; i < y.values.size(); ++i) {
      const bool counts = static_cast<int64_t>(y.values[i]) != ignored;
      counted += counts ? 1.0f : 0.0f;
      reinterpret_cast<int32_t*>(executor.input(targets))[i] =
          counts ? static_cast<int32_t>(y.values[i]) : kNoTarget;
    }
    const std::string reduction = it.attribute<std::string>("reduction", "mean");
    *reinterpret_cast<float*>(executor.input(factor)) = reduction == "mean" ? 1 / counted : 1;
    executor.run(nullptr);
    const ValueId result = reduction == "none" ? loss.rows : loss.loss;
    const Array want = it.output(0);
    expect_near({executor.output(result), executor.output(result) + want.values.size()}, want.values,
                it.name());
    ++done;
  }
  EXPECT_EQ(done, 8u);
}

TEST(OpVectors, Momentum) {
  BF_CASES("Momentum");
  for (const Case& it : all) {
    const Array rate = it.input(0), step = it.input(1);
    ASSERT_EQ(step.values[0], 0) << "a first step";
    std::vector<float> x = it.input(2).values, v = it.input(4).values;
    ThreadPool pool(1);
    kernels::sgd_update({.lr = rate.values[0],
                         .momentum = it.attribute("alpha", 0.0),
                         .decay = it.attribute("norm_coefficient", 0.0),
                         .nesterov = it.attribute<std::string>("mode", "") == "nesterov"},
                        it.input(3).values.data(), x.data(), v.data(), x.size(), pool);
    expect_near(x, it.output(0).values, it.name());
    expect_near(v, it.output(1).values, it.name());
  }
}

}  // namespace
}  // namespace butterfly::graph
