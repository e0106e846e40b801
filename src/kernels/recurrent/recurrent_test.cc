// Convolution over time, the delta rule and selective states: against hand values, then bit for bit against
// the plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "kernels/math/math.h"
#include "kernels/recurrent/causal_conv.h"
#include "kernels/recurrent/gated_delta.h"
#include "kernels/recurrent/selective_state.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {
namespace {

std::vector<float> floats(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = random_normal(seed, 1, i);
  return values;
}

TEST(CausalConv, OldestFirst) {
  const std::vector<float> old = {1, 2}, now = {10, 20}, weights = {3, 5, 7, 11}, bias = {0.5f, 0};
  const float* rows[] = {old.data(), now.data()};
  float out[2];
  causal_conv({.taps = 2, .weights = weights.data(), .weight_stride = 2, .bias = bias.data()}, rows, out, 2);
  EXPECT_EQ(out[0], 1 * 3 + 10 * 7 + 0.5f);
  EXPECT_EQ(out[1], 2 * 5 + 20 * 11);
  causal_conv({.taps = 1, .weights = weights.data(), .silu = true}, rows, out, 2);
  EXPECT_EQ(out[0], silu_f32(3));
}

TEST(CausalConv, TheBitsOfThePlainLoop) {
  for_each_target([](const std::string& target) {
    for (const size_t count : {0, 1, 3, 4, 7, 15, 16, 17, 33, 100})
      for (const size_t taps : {1, 2, 3, 4, 8})
        for (const bool silu : {false, true}) {
          const auto x = floats(1, taps * count + 1), weights = floats(2, taps * count + 1),
                     bias = floats(3, count + 1);
          std::vector<const float*> rows;
          for (size_t j = 0; j < taps; ++j) rows.push_back(x.data() + 1 + j * count);
          const CausalConv conv{taps, weights.data() + 1, count, count % 2 == 0 ? bias.data() + 1 : nullptr,
                                silu};
          std::vector<float> fast(count + 1, 9), plain(count + 1, 9);
          causal_conv(conv, rows.data(), fast.data(), count);
          ref::causal_conv(conv, rows.data(), plain.data(), count);
          EXPECT_EQ(fast, plain) << target << ": " << count << " channels, " << taps << " taps";
        }
  });
}

// Keys 1 and 0 of a matrix with two rows: what was said is corrected, then asked for.
TEST(GatedDelta, WritesWhatItIsToldAndFadesTheRest) {
  const DeltaShape shape{.key_dim = 2, .value_dim = 16, .scale = 0.5f};
  std::vector<float> state(shape.state_floats()), v(16, 4), out(16);
  const std::vector<float> first = {1, 0}, second = {0, 1};
  const DeltaToken write{first.data(), first.data(), v.data(), out.data(), 1, 1};
  gated_delta(shape, nullptr, state.data(), &write, 1);
  EXPECT_EQ(out[3], 2) << "the value, scaled";
  EXPECT_EQ(state[3], 4);
  const DeltaToken fade{first.data(), second.data(), v.data(), out.data(), 0.5f, 0.25f};
  gated_delta(shape, state.data(), state.data(), &fade, 1);
  EXPECT_EQ(state[3], 2) << "faded";
  EXPECT_EQ(state[16 + 3], 1) << "a quarter of the way from nothing to the value";
  EXPECT_EQ(out[3], 1) << "the first key's value, scaled";
}

struct Tokens {
  Tokens(const DeltaShape& shape, size_t count)
      : q(floats(4, count * shape.key_dim)),
        k(floats(5, count * shape.key_dim)),
        v(floats(6, count * shape.value_dim)),
        out(count * shape.value_dim, 9) {
    for (size_t n = 0; n < count; ++n)
      rows.push_back({q.data() + n * shape.key_dim, k.data() + n * shape.key_dim,
                      v.data() + n * shape.value_dim, n % 5 == 4 ? nullptr : out.data() + n * shape.value_dim,
                      sigmoid_f32(q[n * shape.key_dim]), sigmoid_f32(k[n * shape.key_dim])});
    const float norm = 1 / std::sqrt(static_cast<float>(shape.key_dim));
    for (float& x : k) x *= norm;
  }
  std::vector<float> q, k, v, out;
  std::vector<DeltaToken> rows;
};

TEST(GatedDelta, TheBitsOfThePlainLoopInPiecesOfAnySize) {
  for_each_target([](const std::string& target) {
    for (const size_t key_dim : {1, 3, 16, 128})
      for (const size_t value_dim : {16, 32, 64, 80, 128, 144}) {
        const DeltaShape shape{key_dim, value_dim, 0.25f};
        constexpr size_t kTokens = 7;
        const std::vector<float> begin = floats(7, shape.state_floats());
        Tokens plain(shape, kTokens), fast(shape, kTokens), one_by_one(shape, kTokens);
        std::vector<float> plain_state(begin.size()), fast_state(begin.size()), state = begin;
        ref::gated_delta(shape, begin.data(), plain_state.data(), plain.rows.data(), kTokens);
        gated_delta(shape, begin.data(), fast_state.data(), fast.rows.data(), kTokens);
        for (const DeltaToken& token : one_by_one.rows)
          gated_delta(shape, state.data(), state.data(), &token, 1);
        EXPECT_EQ(fast.out, plain.out) << key_dim << " x " << value_dim;
        EXPECT_EQ(fast_state, plain_state) << key_dim << " x " << value_dim;
        EXPECT_EQ(one_by_one.out, plain.out) << key_dim << " x " << value_dim;
        EXPECT_EQ(state, plain_state) << target << ": " << key_dim << " x " << value_dim;
      }
  });
}

TEST(SelectiveState, FadesAddsAndReads) {
  const SelectiveShape shape{.state_dim = 2, .head_dim = 16, .skip = 3};
  std::vector<float> state(shape.state_floats()), x(16, 4), out(16);
  const std::vector<float> b = {1, 2}, c = {10, 100};
  const SelectiveToken token{b.data(), c.data(), x.data(), out.data(), 0.5f, 0.25f};
  selective_state(shape, nullptr, state.data(), &token, 1);
  EXPECT_EQ(state[3], 1) << "a quarter of 4, once";
  EXPECT_EQ(state[16 + 3], 2) << "and twice";
  EXPECT_EQ(out[3], 10 + 200 + 12);
  selective_state(shape, state.data(), state.data(), &token, 1);
  EXPECT_EQ(state[3], 1.5f);
  EXPECT_EQ(out[3], 15 + 300 + 12);
}

TEST(SelectiveState, TheBitsOfThePlainLoopInPiecesOfAnySize) {
  for_each_target([](const std::string& target) {
    for (const size_t state_dim : {1, 3, 16, 128})
      for (const size_t head_dim : {16, 32, 64, 80}) {
        const SelectiveShape shape{state_dim, head_dim, 0.7f};
        constexpr size_t kTokens = 7;
        const auto begin = floats(7, shape.state_floats()), b = floats(4, kTokens * state_dim),
                   c = floats(5, kTokens * state_dim), x = floats(6, kTokens * head_dim);
        std::vector<float> outs[3], states[3];
        for (size_t way = 0; way < 3; ++way) {
          outs[way].assign(kTokens * head_dim, 9);
          states[way] = begin;
          std::vector<SelectiveToken> tokens;
          for (size_t n = 0; n < kTokens; ++n)
            tokens.push_back({b.data() + n * state_dim, c.data() + n * state_dim, x.data() + n * head_dim,
                              n % 5 == 4 ? nullptr : outs[way].data() + n * head_dim,
                              sigmoid_f32(b[n * state_dim]), softplus_f32(c[n * state_dim])});
          float* state = states[way].data();
          if (way == 0) ref::selective_state(shape, begin.data(), state, tokens.data(), kTokens);
          if (way == 1) selective_state(shape, begin.data(), state, tokens.data(), kTokens);
          if (way == 2)
            for (const SelectiveToken& token : tokens) selective_state(shape, state, state, &token, 1);
        }
        for (size_t way = 1; way < 3; ++way) {
          EXPECT_EQ(outs[way], outs[0]) << target << ": " << state_dim << " x " << head_dim;
          EXPECT_EQ(states[way], states[0]) << target << ": " << state_dim << " x " << head_dim;
        }
      }
  });
}

TEST(Softplus, IsTheLogarithmOfOnePlusExp) {
  for (const float x : {-100.0f, -20.0f, -1.0f, 0.0f, 0.5f, 10.0f, 19.9f, 20.1f, 80.0f}) {
    const double wanted = std::log1p(std::exp(static_cast<double>(x)));
    EXPECT_NEAR(softplus_f32(x), wanted, 1e-6 * wanted + 1e-16) << x;
  }
  EXPECT_TRUE(std::isnan(softplus_f32(NAN)));
}

}  // namespace
}  // namespace butterfly::kernels
