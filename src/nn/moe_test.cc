// Experts against plain arithmetic, ties, and rows that do not depend on their company.
#include "nn/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "graph/executor.h"
#include "kernels/elementwise/activation.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quant/quant.h"

namespace butterfly::nn {
namespace {

constexpr size_t kDim = 64, kFf = 96, kExperts = 5, kUsed = 2;
using graph::Elem;

std::vector<float> draw(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = random_normal(seed, 0, i) / 8;
  return values;
}

kernels::PackedMatrix pack(DType type, size_t rows, size_t cols, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(type, {static_cast<int64_t>(rows), static_cast<int64_t>(cols)});
  kernels::from_float(type, values.data(), tensor.raw(), values.size());
  return kernels::PackedMatrix(tensor);
}

struct Fixture {
  Moe moe;
  std::vector<float> router;
  std::vector<std::vector<float>> gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;  // [experts, outputs]; empty: none

  explicit Fixture(DType type, bool equal_router = false) {
    router = equal_router ? std::vector<float>(kExperts * kDim, 0.0f) : draw(kExperts * kDim, 1);
    moe.router.weight = {.name = "router", .value = {}, .packed = pack(DType::kF32, kExperts, kDim, router)};
    moe.route.used = kUsed;
    moe.route.scale = 1.5f;
    moe.name = "ffn";
    for (size_t e = 0; e < kExperts; ++e) {
      gate.push_back(draw(kFf * kDim, 10 + e));
      up.push_back(draw(kFf * kDim, 20 + e));
      down.push_back(draw(kDim * kFf, 30 + e));
      moe.gate.experts.push_back(pack(type, kFf, kDim, gate[e]));
      moe.up.experts.push_back(pack(type, kFf, kDim, up[e]));
      moe.down.experts.push_back(pack(type, kDim, kFf, down[e]));
    }
  }

  // Biases, and gates that are clamped, as in gpt-oss.
  void add_biases() {
    const auto tensor = [](const std::vector<float>& values) {
      Tensor to = Tensor::zeros(DType::kF32, {kExperts, static_cast<int64_t>(values.size() / kExperts)});
      std::copy(values.begin(), values.end(), to.data<float>());
      return to;
    };
    moe.gate.bias = tensor(gate_bias = draw(kExperts * kFf, 50));
    moe.up.bias = tensor(up_bias = draw(kExperts * kFf, 51));
    moe.down.bias = tensor(down_bias = draw(kExperts * kDim, 52));
    moe.activation = Activation::kClampedSilu;
  }

  // Outputs of rows `first`, `first` + 1, ... of a fixed sequence of inputs.
  std::vector<float> outputs(size_t first, size_t rows, size_t threads) const {
    ThreadPool pool(threads);
    graph::Arena arena;
    Graph g;
    Builder b(g);
    const ValueId x = g.input("x", {Elem::kF32, {static_cast<int64_t>(rows), kDim}});
    const ValueId y = moe.build(b, x);
    g.mark_output(y);
    graph::Executor run(std::move(g), arena, pool);
    for (size_t r = 0; r < rows; ++r)
      for (size_t k = 0; k < kDim; ++k)
        reinterpret_cast<float*>(run.input(x))[r * kDim + k] = input(first + r, k);
    run.run(nullptr);
    return {run.output(y), run.output(y) + rows * kDim};
  }
  static float input(size_t row, size_t k) { return 4 * random_normal(40, row, k); }

  std::vector<double> reference(size_t row) const {
    const auto product = [](const std::vector<float>& w, const std::vector<double>& x, size_t rows) {
      std::vector<double> y(rows, 0);
      for (size_t r = 0; r < rows; ++r)
        for (size_t k = 0; k < x.size(); ++k) y[r] += double{w[r * x.size() + k]} * x[k];
      return y;
    };
    std::vector<double> x(kDim);
    for (size_t k = 0; k < kDim; ++k) x[k] = input(row, k);
    std::vector<double> p = product(router, x, kExperts);
    double total = 0;
    for (double& value : p) total += value = std::exp(value);
    std::vector<size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    double chosen = 0;
    for (size_t s = 0; s < kUsed; ++s) chosen += p[order[s]] / total;
    std::vector<double> y(kDim, 0);
    for (size_t s = 0; s < kUsed; ++s) {
      const size_t e = order[s];
      auto hidden = product(gate[e], x, kFf);
      const auto other = product(up[e], x, kFf);
      for (size_t i = 0; i < kFf; ++i) {
        if (gate_bias.empty()) {
          hidden[i] *= other[i] / (1 + std::exp(-hidden[i]));
        } else {
          const double open = std::min(7.0, hidden[i] + gate_bias[e * kFf + i]);
          const double value = std::clamp(other[i] + up_bias[e * kFf + i], -7.0, 7.0);
          hidden[i] = open / (1 + std::exp(-1.702 * open)) * (value + 1);
        }
      }
      auto out = product(down[e], hidden, kDim);
      for (size_t i = 0; i < kDim && !down_bias.empty(); ++i) out[i] += down_bias[e * kDim + i];
      for (size_t i = 0; i < kDim; ++i) y[i] += p[e] / total / chosen * 1.5 * out[i];
    }
    return y;
  }
};

TEST(Moe, EqualsPlainArithmetic) {
  for (bool equal_router : {false, true}) {  // equal: the experts of the lowest numbers are asked
    const Fixture fixture(DType::kF32, equal_router);
    const auto outputs = fixture.outputs(0, 9, 2);
    for (size_t row = 0; row < 9; ++row) {
      const auto want = fixture.reference(row);
      for (size_t i = 0; i < kDim; ++i)
        ASSERT_NEAR(outputs[row * kDim + i], want[i], 1e-4) << row << " " << i;
    }
  }
}

TEST(Moe, BiasesBelongToTheirExperts) {
  Fixture fixture(DType::kF32);
  fixture.add_biases();
  const auto outputs = fixture.outputs(0, 9, 2);
  for (size_t row = 0; row < 9; ++row) {
    const auto want = fixture.reference(row);
    for (size_t i = 0; i < kDim; ++i) ASSERT_NEAR(outputs[row * kDim + i], want[i], 1e-4) << row << " " << i;
  }
}

// One expert that is always asked, with all the weight: what is left of a mixture is its down.
TEST(Moe, AnExpertsDownIsSummedByShards) {
  Fixture fixture(DType::kF32);
  Moe& moe = fixture.moe;
  moe.router.weight.packed = pack(DType::kF32, 1, kDim, draw(kDim, 1));
  moe.route.used = 1;
  moe.route.scale = 1;
  for (ExpertParameter* part : {&moe.gate, &moe.up, &moe.down}) part->experts.resize(1);
  std::vector<float> x(kDim), gate(kFf), up(kFf), hidden(kFf), want(kDim), chain(kDim);
  for (size_t k = 0; k < kDim; ++k) x[k] = Fixture::input(0, k);
  const auto bytes = [](const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); };
  kernels::matmul(moe.gate.experts[0], bytes(x), 0, 1, gate.data(), kFf, 0, kFf);
  kernels::matmul(moe.up.experts[0], bytes(x), 0, 1, up.data(), kFf, 0, kFf);
  kernels::swiglu(gate.data(), up.data(), hidden.data(), kFf);
  kernels::matmul_shards(moe.down.experts[0], kernels::ShardCuts::of(64, kFf), bytes(hidden), 0, 1,
                         want.data(), kDim, 0, 0, kDim);
  kernels::matmul(moe.down.experts[0], bytes(hidden), 0, 1, chain.data(), kDim, 0, kDim);
  EXPECT_EQ(fixture.outputs(0, 1, 1), want);
  EXPECT_NE(want, chain);
}

TEST(Moe, RowsDoNotDependOnBatchOrThreads) {
  for (DType type : {DType::kF32, DType::kQ8_0}) {
    const Fixture fixture(type);
    const auto all = fixture.outputs(0, 20, 3);
    for (size_t row = 0; row < 20; ++row) {
      const auto alone = fixture.outputs(row, 1, 1);
      for (size_t i = 0; i < kDim; ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(alone[i]), std::bit_cast<uint32_t>(all[row * kDim + i]));
    }
  }
}

}  // namespace
}  // namespace butterfly::nn
