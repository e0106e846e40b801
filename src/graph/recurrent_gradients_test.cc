// Gradients of what only some architectures have (recurrences, sinks, latents, gates and parts of columns)
// against differences, over several documents and more rows than a chunk, and on any number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "graph/ops/grad_ops.h"
#include "graph/ops/sequence_states.h"
#include "graph/testing/gradient_check.h"

namespace butterfly::graph {
namespace {

using testing::GradientCheck;
using Inputs = std::vector<ValueId>;

// Frozen numbers of heads.
Parameter frozen(Shape shape, float mean, float deviation) {
  Parameter parameter{.name = "frozen", .value = Tensor::zeros(DType::kF32, shape)};
  for (int64_t i = 0; i < shape.count(); ++i)
    parameter.value.data<float>()[i] = mean + deviation * std::sin(static_cast<float>(7 * i + 1));
  return parameter;
}

std::vector<int32_t> two_documents(size_t rows, size_t second) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < rows; ++i) positions.push_back(static_cast<int32_t>(i < second ? i : i - second));
  return positions;
}

void check_threads(GradientCheck& c, const GradientCheck::Build& build) {
  const auto one = c.gradients_of(build, 1);
  for (const size_t threads : {2, 3, 5}) EXPECT_EQ(c.gradients_of(build, threads), one) << threads;
}

TEST(RecurrentGradients, Convolution) {
  for (const bool silu : {false, true}) {
    GradientCheck c;
    c.input({14, 5}, 1);
    c.ids({0, 1, 2, 3, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6});
    const Parameter weight = frozen({4, 5}, 0, 0.7f), bias = silu ? frozen({5}, 0, 0.5f) : Parameter{};
    c.check([&](Graph& g, const Inputs& x) {
      return sequence_conv(g, x[0], weight, bias, silu, 7, "conv", x[1]);
    });
  }
  GradientCheck wide;  // several blocks of channels
  wide.input({40, 600}, 1);
  const Parameter weight = frozen({3, 600}, 0, 0.7f);
  check_threads(
      wide, [&](Graph& g, const Inputs& x) { return sequence_conv(g, x[0], weight, {}, true, 20, "conv"); });
}

TEST(RecurrentGradients, L2Norm) {
  GradientCheck c;
  c.input({3, 14}, 1, 0.2f);
  c.check([&](Graph& g, const Inputs& x) { return l2_norm(g, x[0], 3, 4, 1e-6f, "norm"); });
  GradientCheck small;  // shorter than eps
  small.input({2, 8}, 0.1f);
  small.check([&](Graph& g, const Inputs& x) { return l2_norm(g, x[0], 2, 4, 10.0f, "norm"); });
}

struct DeltaCase {
  size_t key_heads, value_heads, key_dim, rows, length, second_document;
  bool tiled;
};

TEST(RecurrentGradients, GatedDelta) {
  for (const DeltaCase& it : {DeltaCase{1, 2, 3, 6, 3, 2, false}, DeltaCase{2, 4, 4, 7, 7, 4, false},
                              DeltaCase{2, 4, 4, 7, 7, 4, true}}) {
    GradientCheck c;
    const auto n = static_cast<int64_t>(it.rows), heads = static_cast<int64_t>(it.value_heads);
    const size_t columns = 2 * it.key_heads * it.key_dim + it.value_heads * 16;
    c.input({n, static_cast<int64_t>(columns)}, 0.6f);
    c.input({n, heads}, 1);
    c.input({n, heads}, 1);
    c.ids(two_documents(it.rows, it.second_document));
    const Parameter a = frozen({heads}, -0.5f, 0.2f), dt = frozen({heads}, 0, 0.5f);
    const GatedDeltaShape shape{.place = {},
                                .key_heads = it.key_heads,
                                .value_heads = it.value_heads,
                                .key_dim = it.key_dim,
                                .value_dim = 16,
                                .tiled = it.tiled,
                                .scale = 0.5f,
                                .a = &a,
                                .dt = &dt};
    const auto build = [&](Graph& g, const Inputs& x) {
      return sequence_delta(g, x[0], x[1], x[2], shape, it.length, "delta", x[3]);
    };
    c.check(build);
    check_threads(c, build);
  }
}

// More rows than a chunk: states are found again from what was written down.
TEST(RecurrentGradients, LongGatedDelta) {
  GradientCheck c;
  constexpr size_t kRows = kStateChunk + 9;
  c.input({kRows, 2 * 2 + 16}, 0.4f);
  c.input({kRows, 1}, 1);
  c.input({kRows, 1}, 1);
  const Parameter a = frozen({1}, -0.1f, 0), dt = frozen({1}, 0, 0);
  const GatedDeltaShape shape{.place = {},
                              .key_heads = 1,
                              .value_heads = 1,
                              .key_dim = 2,
                              .value_dim = 16,
                              .tiled = false,
                              .scale = 0.5f,
                              .a = &a,
                              .dt = &dt};
  c.check(
      [&](Graph& g, const Inputs& x) { return sequence_delta(g, x[0], x[1], x[2], shape, kRows, "delta"); });
}

SelectiveStateShape selective_shape(size_t heads, size_t groups, size_t state_dim, const Parameter& a,
                                    const Parameter& dt, const Parameter& skip) {
  return {.place = {},
          .heads = heads,
          .head_dim = 16,
          .groups = groups,
          .state_dim = state_dim,
          .a = &a,
          .dt = &dt,
          .skip = &skip};
}

TEST(RecurrentGradients, SelectiveState) {
  for (const size_t groups : {1, 2}) {
    GradientCheck c;
    const Parameter a = frozen({4}, -0.5f, 0.2f), dt = frozen({4}, 0, 0.5f), skip = frozen({4}, 1, 0.5f);
    const SelectiveStateShape shape = selective_shape(4, groups, 3, a, dt, skip);
    c.input({7, static_cast<int64_t>(shape.columns())}, 0.6f);
    c.input({7, 4}, 1);
    c.ids(two_documents(7, 4));
    const auto build = [&](Graph& g, const Inputs& x) {
      return sequence_state(g, x[0], x[1], shape, 7, "state", x[2]);
    };
    c.check(build);
    check_threads(c, build);
  }
  GradientCheck c;
  constexpr size_t kRows = kStateChunk + 9;
  const Parameter a = frozen({1}, -0.1f, 0), dt = frozen({1}, 0, 0), skip = frozen({1}, 1, 0);
  const SelectiveStateShape shape = selective_shape(1, 1, 2, a, dt, skip);
  c.input({kRows, static_cast<int64_t>(shape.columns())}, 0.4f);
  c.input({kRows, 1}, 1);
  c.check([&](Graph& g, const Inputs& x) { return sequence_state(g, x[0], x[1], shape, kRows, "state"); });
}

TEST(RecurrentGradients, AttentionWithSinks) {
  for (const size_t window : {0, 3}) {
    GradientCheck c;
    c.input({12, 4 * 3}, 1);
    c.input({12, 2 * 3}, 1);
    c.input({12, 2 * 3}, 1);
    c.ids(two_documents(12, 6));
    const Parameter sinks = frozen({4}, 0.3f, 1);
    AttentionShape shape{0, 4, 2, 3, {.scale = 0.6f, .window = window}};
    shape.sinks = &sinks;
    const auto build = [&](Graph& g, const Inputs& x) {
      return causal_attention(g, x[0], x[1], x[2], shape, 6, "attention", x[3]);
    };
    c.check(build);
    check_threads(c, build);
  }
}

// Values are the beginnings of the keys.
TEST(RecurrentGradients, AttentionOverLatents) {
  GradientCheck c;
  c.input({10, 3 * 6}, 1);
  c.input({10, 6}, 1);
  c.ids({0, 1, 2, 0, 1, 0, 1, 2, 3, 4});
  AttentionShape shape{0, 3, 1, 6, {.scale = 0.6f}};
  shape.latent_dim = 4;
  const auto build = [&](Graph& g, const Inputs& x) {
    return causal_attention(g, x[0], x[1], {}, shape, 5, "attention", x[2]);
  };
  c.check(build);
  check_threads(c, build);
}

TEST(RecurrentGradients, HeadsTimesMatricesOfTheirOwn) {
  ExpertParameter heads{.name = "heads", .experts = {}};
  for (size_t head = 0; head < 3; ++head)
    heads.experts.emplace_back(frozen({5, 4}, 0.1f * static_cast<float>(head), 0.7f).value);
  GradientCheck c;
  c.input({6, 12}, 1);
  const auto build = [&](Graph& g, const Inputs& x) { return head_matmul(g, x[0], heads, "heads"); };
  c.check(build);
  check_threads(c, build);
}

TEST(RecurrentGradients, PartsOfColumns) {
  GradientCheck c;
  c.input({3, 12}, 1);
  c.check([&](Graph& g, const Inputs& x) {
    const auto [first, second] = split_columns(g, x[0], 2, 4, "split");
    const auto [a, b] = halves(g, second, 2, "halves");
    return join_columns(g, mul(g, a, b, "mul"), mul(g, first, first, "square"), 2, 2, "join");
  });
  // One of two parts leads nowhere.
  c.check([&](Graph& g, const Inputs& x) { return split_columns(g, x[0], 2, 4, "split").second; });
  c.check([&](Graph& g, const Inputs& x) { return halves(g, x[0], 3, "halves").first; });
  const MemberRange ranges[] = {{9, 12}, {0, 2}, {1, 4}};
  c.check([&](Graph& g, const Inputs& x) { return columns(g, x[0], ranges, "columns"); });
}

TEST(RecurrentGradients, ClampedGates) {
  GradientCheck c;
  c.input({3, 11}, 2);
  c.input({3, 11}, 2);
  c.check([&](Graph& g, const Inputs& x) { return swiglu_clamped(g, x[0], x[1], "gated"); });
  for (const float mean : {40.0f, -40.0f}) {  // beyond the limits
    GradientCheck far;
    far.input({1, 5}, 1, mean);
    far.input({1, 5}, 1, mean);
    far.check([&](Graph& g, const Inputs& x) { return swiglu_clamped(g, x[0], x[1], "gated"); });
  }
}

// Each expert's weight times a number of its own.
TEST(RecurrentGradients, ExpertsWithScales) {
  const Parameter scales = frozen({6}, 1, 0.5f);
  GradientCheck c(3);
  c.input({5, 6}, 1);
  c.input({10, 4}, 1);
  c.check(
      [&](Graph& g, const Inputs& x) {
        const MoeRoute to = moe_route(g, x[0], {.used = 2}, {}, scales, "route");
        return moe_combine(g, x[1], to, "combine");
      },
      0.002f);
}

}  // namespace
}  // namespace butterfly::graph
