// Ops with a recurrent state: pieces, guesses and pages change no bit; and the router's options.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/rng.h"
#include "graph/executor.h"
#include "graph/ops.h"
#include "kernels/math/math.h"

namespace butterfly::graph {
namespace {

constexpr size_t kKeyHeads = 2, kValueHeads = 4, kDim = 16, kTaps = 4;
constexpr size_t kChannels = 2 * kKeyHeads * kDim + kValueHeads * kDim;
constexpr size_t kConvFloats = (kTaps - 1) * kChannels,
                 kStateFloats = kConvFloats + kValueHeads * kDim * kDim;
constexpr size_t kGuessFloats = kChannels + kValueHeads * (2 * kDim + 2);

Parameter vector(const char* name, Shape shape, uint64_t seed, float mean, float deviation) {
  Parameter parameter{.name = name, .value = Tensor::zeros(DType::kF32, shape)};
  for (int64_t i = 0; i < shape.count(); ++i)
    parameter.value.data<float>()[i] = mean + deviation * random_normal(seed, 0, static_cast<uint64_t>(i));
  return parameter;
}

// Rows that a step takes, and of them how many are guesses. `right`: guesses of the last step that were.
struct Step {
  size_t certain, guesses = 0, right = 0;
};

enum class Kind { kDelta, kGroupedDelta, kSelective };

struct Recurrence {
  Parameter conv = vector("conv", {kTaps, kChannels}, 1, 0, 0.5f);
  Parameter a = vector("a", {kValueHeads}, 2, -0.3f, 0.05f), dt = vector("dt", {kValueHeads}, 3, 0, 0.5f);
  Parameter bias = vector("bias", {kChannels}, 4, 0, 0.5f), skip = vector("d", {kValueHeads}, 5, 1, 0.5f);

  // `length` 0: over the cache; else as a sequence of a training batch.
  ValueId build(Graph& g, ValueId x, ValueId alpha, ValueId beta, Kind kind, size_t length) const {
    const StatePlace place{0, kConvFloats, kChannels};
    const bool selective = kind == Kind::kSelective;
    const Parameter none, &conv_bias = selective ? bias : none;
    ValueId y = length == 0 ? causal_conv(g, x, conv, conv_bias, {0, 0, 0}, true, "conv")
                            : sequence_conv(g, x, conv, conv_bias, true, length, "conv");
    if (selective) {
      const SelectiveStateShape shape{.place = place,
                                      .heads = kValueHeads,
                                      .head_dim = kDim,
                                      .groups = kKeyHeads,
                                      .state_dim = kDim,
                                      .a = &a,
                                      .dt = &dt,
                                      .skip = &skip};
      return length == 0 ? selective_state(g, y, alpha, shape, "state")
                         : sequence_state(g, y, alpha, shape, length, "state");
    }
    y = l2_norm(g, y, 2 * kKeyHeads, kDim, 1e-6f, "norm");
    const GatedDeltaShape shape{.place = place,
                                .key_heads = kKeyHeads,
                                .value_heads = kValueHeads,
                                .key_dim = kDim,
                                .value_dim = kDim,
                                .tiled = kind == Kind::kDelta,
                                .scale = 0.25f,
                                .a = &a,
                                .dt = &dt};
    return length == 0 ? gated_delta(g, y, alpha, beta, shape, "delta")
                       : sequence_delta(g, y, alpha, beta, shape, length, "delta");
  }

  // The same rows as a sequence of a training batch.
  std::vector<uint32_t> train(size_t rows, size_t threads, Kind kind) const {
    ThreadPool pool(threads);
    Arena arena;
    Graph g;
    const auto n = static_cast<int64_t>(rows);
    const ValueId x = g.input("x", {Elem::kF32, {n, kChannels}}),
                  alpha = g.input("alpha", {Elem::kF32, {n, kValueHeads}}),
                  beta = g.input("beta", {Elem::kF32, {n, kValueHeads}});
    const ValueId y = build(g, x, alpha, beta, kind, rows);
    g.mark_output(y);
    Executor run(std::move(g), arena, pool);
    const auto fill = [&](ValueId value, size_t cols, uint64_t seed) {
      auto* to = reinterpret_cast<float*>(run.input(value));
      for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < cols; ++c) to[r * cols + c] = random_normal(seed, r, c);
    };
    fill(x, kChannels, 11);
    fill(alpha, kValueHeads, 12);
    fill(beta, kValueHeads, 13);
    run.run(nullptr);
    std::vector<uint32_t> bits;
    for (size_t i = 0; i < rows * kValueHeads * kDim; ++i)
      bits.push_back(std::bit_cast<uint32_t>(run.output(y)[i]));
    return bits;
  }

  // Outputs of all certain rows. `pages`: of each block; kNoPage: the state is not kept there.
  std::vector<uint32_t> run(const std::vector<Step>& steps, size_t threads, std::vector<uint32_t> pages,
                            Kind kind = Kind::kDelta) {
    ThreadPool pool(threads);
    Arena arena;
    const Buffer memory = Buffer::allocate(8 * kStateFloats * sizeof(float)),
                 guessed = Buffer::allocate(kGuessesMax * kGuessFloats * sizeof(float));
    const KvLayer layer{.base = memory.data(),
                        .page_stride = kStateFloats * sizeof(float),
                        .kind = PageKind::kState,
                        .guesses = reinterpret_cast<float*>(guessed.data()),
                        .guess_floats = kGuessFloats};
    const std::span<const uint32_t> table(pages);
    std::vector<uint32_t> bits;
    size_t seen = 0;  // positions in the state
    for (const Step& step : steps) {
      const size_t rows = step.certain + step.guesses, position = seen + step.right;
      Graph g;
      const auto n = static_cast<int64_t>(rows);
      const ValueId x = g.input("x", {Elem::kF32, {n, kChannels}});
      const ValueId alpha = g.input("alpha", {Elem::kF32, {n, kValueHeads}}),
                    beta = g.input("beta", {Elem::kF32, {n, kValueHeads}});
      const ValueId y = build(g, x, alpha, beta, kind, 0);
      g.mark_output(y);
      Executor run(std::move(g), arena, pool);
      const auto fill = [&](ValueId value, size_t cols, uint64_t seed) {
        auto* to = reinterpret_cast<float*>(run.input(value));
        for (size_t r = 0; r < rows; ++r)
          for (size_t c = 0; c < cols; ++c)  // a guess that will be wrong is another row
            to[r * cols + c] = random_normal(r < step.certain + next_right(steps, step) ? seed : seed + 100,
                                             position + r, c);
      };
      fill(x, kChannels, 11);
      fill(alpha, kValueHeads, 12);
      fill(beta, kValueHeads, 13);
      KvStep kv;
      kv.layers = {&layer, 1};
      kv.page_ids[static_cast<size_t>(PageKind::kState)] = {&table, 1};
      const StateRun of{.sequence = 0,
                        .first_row = 0,
                        .rows = static_cast<uint32_t>(rows),
                        .position = static_cast<uint32_t>(position),
                        .replayed = static_cast<uint32_t>(step.right),
                        .certain = static_cast<uint32_t>(step.certain),
                        .from = seen == 0 ? kNoPage : pages[(seen - 1) / kernels::kKvPage]};
      kv.state_runs = {&of, 1};
      run.run(&kv);
      const size_t kept = step.certain + next_right(steps, step);
      for (size_t i = 0; i < kept * kValueHeads * kDim; ++i)
        bits.push_back(std::bit_cast<uint32_t>(run.output(y)[i]));
      seen = position + step.certain;
    }
    return bits;
  }
  static size_t next_right(const std::vector<Step>& steps, const Step& step) {
    const auto next = static_cast<size_t>(&step - steps.data()) + 1;
    return next < steps.size() ? steps[next].right : 0;
  }
};

class RecurrentKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(RecurrentKinds, PiecesPagesThreadsAndGuessesChangeNothing) {
  Recurrence recurrence;
  const auto run = [&](const std::vector<Step>& steps, size_t threads, std::vector<uint32_t> pages) {
    return recurrence.run(steps, threads, std::move(pages), GetParam());
  };
  const std::vector<uint32_t> all = {0, 1, 2, 3};
  const auto want = run(std::vector<Step>(70, Step{1}), 1, all);
  ASSERT_EQ(want.size(), 70 * kValueHeads * kDim);
  for (const uint32_t bits : want) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(bits)));
  EXPECT_EQ(run({{70}}, 1, all), want);
  EXPECT_EQ(recurrence.train(70, 1, GetParam()), want) << "training sees what a run sees";
  EXPECT_EQ(recurrence.train(70, 3, GetParam()), want);
  EXPECT_EQ(run({{70}}, 3, all), want);
  EXPECT_EQ(run({{1}, {2}, {33}, {7}, {27}}, 2, all), want);
  EXPECT_EQ(run({{70}}, 2, {kNoPage, kNoPage, 5}), want) << "only the last state is kept";
  EXPECT_EQ(run({{64}, {6}}, 2, {kNoPage, 1, 5}), want);
  EXPECT_EQ(run({{40}, {30}}, 2, {2, 2, 2}), want) << "one page for all blocks";
  // Guesses: none right, some, all; over the end of a block; and twice in a row.
  EXPECT_EQ(run({{30, 3, 0}, {1, 8, 0}, {1, 5, 8}, {1, 2, 1}, {27, 0, 1}}, 2, all), want);
  EXPECT_EQ(run({{31, 6, 0}, {33, 0, 6}}, 1, all), want);
  EXPECT_EQ(run({{31, 6, 0}, {1, 8, 4}, {26, 0, 8}}, 1, {4, 4, 4}), want);
  if (GetParam() == Kind::kGroupedDelta) {
    EXPECT_NE(recurrence.run({{70}}, 1, all, Kind::kDelta), want) << "value heads in another order";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentKinds,
                         ::testing::Values(Kind::kDelta, Kind::kGroupedDelta, Kind::kSelective));

TEST(RecurrentOps, GatesAndHalves) {
  ThreadPool pool(2);
  Arena arena;
  Graph g;
  const ValueId x = g.input("x", {Elem::kF32, {2, 8}}), by_row = g.input("r", {Elem::kF32, {2, 1}});
  const auto [first, second] = halves(g, x, 2, "halves");
  const ValueId gated = gate(g, first, second, "gate"), rows = gate(g, x, by_row, "rows");
  g.mark_output(gated);
  g.mark_output(rows);
  Executor run(std::move(g), arena, pool);
  for (size_t i = 0; i < 16; ++i) reinterpret_cast<float*>(run.input(x))[i] = static_cast<float>(i);
  for (size_t i = 0; i < 2; ++i) reinterpret_cast<float*>(run.input(by_row))[i] = static_cast<float>(i);
  run.run(nullptr);
  EXPECT_EQ(run.output(gated)[1], 1 * kernels::sigmoid_f32(3));
  EXPECT_EQ(run.output(gated)[2], 4 * kernels::sigmoid_f32(6));
  EXPECT_EQ(run.output(gated)[4], 8 * kernels::sigmoid_f32(10));
  EXPECT_EQ(run.output(rows)[3], 1.5f);
  EXPECT_EQ(run.output(rows)[9], 9 * kernels::sigmoid_f32(1));
}

struct Routed {
  std::vector<float> weights;
  std::vector<int32_t> experts;
};
Routed route(const std::vector<float>& logits, const RouteOptions& options, const Parameter& bias = {}) {
  ThreadPool pool(1);
  Arena arena;
  Graph g;
  const auto experts = static_cast<int64_t>(logits.size());
  const ValueId x = g.input("x", {Elem::kF32, {1, experts}});
  const MoeRoute to = moe_route(g, x, options, bias, {}, "route");
  g.mark_output(to.weights);
  g.mark_output(to.begins);
  g.mark_output(to.places);
  Executor run(std::move(g), arena, pool);
  std::ranges::copy(logits, reinterpret_cast<float*>(run.input(x)));
  run.run(nullptr);
  const auto* begins = reinterpret_cast<const int32_t*>(run.output(to.begins));
  const auto* places = reinterpret_cast<const int32_t*>(run.output(to.places));
  Routed routed{{run.output(to.weights), run.output(to.weights) + options.used}, {}};
  for (size_t s = 0; s < options.used; ++s) {
    int32_t expert = 0;
    while (begins[expert + 1] <= places[s]) ++expert;
    routed.experts.push_back(expert);
  }
  return routed;
}

TEST(MoeRoute, Options) {
  using enum RouteBy;
  const std::vector<float> logits = {1, 3, 2, 0};
  const auto sigma = [](float x) { return kernels::sigmoid_f32(x); };
  Routed by = route(logits, {.used = 2, .by = kSigmoid});
  EXPECT_EQ(by.experts, (std::vector<int32_t>{1, 2}));
  EXPECT_FLOAT_EQ(by.weights[0], sigma(3) / (sigma(3) + sigma(2)));
  by = route(logits, {.used = 2, .by = kSigmoid, .normalise = false, .scale = 2});
  EXPECT_FLOAT_EQ(by.weights[1], 2 * sigma(2));
  by = route(logits, {.used = 2, .by = kSoftmaxOfChosen});
  EXPECT_FLOAT_EQ(by.weights[0], std::exp(3.0f) / (std::exp(3.0f) + std::exp(2.0f)));
  by = route(logits, {.used = 1, .by = kSqrtSoftplus, .normalise = false});
  EXPECT_FLOAT_EQ(by.weights[0], std::sqrt(std::log1p(std::exp(3.0f))));
  // A bias chooses, and does not weigh.
  Parameter bias{.name = "bias", .value = Tensor::zeros(DType::kF32, {4})};
  bias.value.data<float>()[3] = 1;
  by = route(logits, {.used = 2, .by = kSigmoid, .normalise = false}, bias);
  EXPECT_EQ(by.experts, (std::vector<int32_t>{3, 1}));
  EXPECT_FLOAT_EQ(by.weights[0], sigma(0));
  // Two groups of two: 1 + 3 against 2 + 2.5; the better one has not the best expert.
  by = route({1, 3, 2, 2.5f}, {.used = 2, .by = kSoftmaxOfChosen, .groups = 2, .groups_used = 1});
  EXPECT_EQ(by.experts, (std::vector<int32_t>{3, 2}));
}

}  // namespace
}  // namespace butterfly::graph
