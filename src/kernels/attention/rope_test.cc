// Rope: hand values, what rotations keep, each scaling against its formula in long double, every target bit
// for bit.
#include "kernels/attention/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.h"
#include "kernels/rows/reduce.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

constexpr long double kPi = std::numbers::pi_v<long double>;

std::vector<float> rotations_at(const Rope& rope, int64_t position) {
  std::vector<float> rotations(rope.rotation_floats());
  rope.rotations(position, rotations.data());
  return rotations;
}

TEST(Rope, HandValues) {
  const Rope angles({.head_dim = 4, .base = 100});  // frequencies 1 and 1/10
  ASSERT_EQ(angles.pairs(), 2u);
  EXPECT_NEAR(angles.frequencies()[1], 0.1, 1e-16);
  const auto rotations = rotations_at(angles, 3);
  EXPECT_EQ(rotations[0], static_cast<float>(std::cos(3.0)));
  EXPECT_EQ(rotations[1], static_cast<float>(std::cos(0.3)));
  EXPECT_EQ(rotations[2], static_cast<float>(std::sin(3.0)));
  EXPECT_EQ(rotations[3], static_cast<float>(std::sin(0.3)));

  float interleaved[] = {1, 0, 0, 1};
  rope(RopeLayout::kInterleaved, rotations.data(), 2, interleaved, 1, 4);
  EXPECT_EQ(interleaved[0], rotations[0]);
  EXPECT_EQ(interleaved[1], rotations[2]);
  EXPECT_EQ(interleaved[2], -rotations[3]);
  EXPECT_EQ(interleaved[3], rotations[1]);

  float split[] = {1, 0, 0, 1};  // pairs (0, 2) and (1, 3)
  rope(RopeLayout::kHalfSplit, rotations.data(), 2, split, 1, 4);
  EXPECT_EQ(split[0], rotations[0]);
  EXPECT_EQ(split[2], rotations[2]);
  EXPECT_EQ(split[1], -rotations[3]);
  EXPECT_EQ(split[3], rotations[1]);
}

TEST(Rope, PositionZeroChangesNothing) {
  const Rope angles({.head_dim = 64});
  const auto before = random_floats(64, 1);
  for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
    auto x = before;
    rope(layout, rotations_at(angles, 0).data(), angles.pairs(), x.data(), 1, 64);
    EXPECT_EQ(x, before);
  }
}

TEST(Rope, KeepsNormsAndValuesThatDoNotTurn) {
  const Rope angles({.head_dim = 80, .rotated = 32});
  const auto before = random_floats(160, 2);
  for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
    auto x = before;
    rope(layout, rotations_at(angles, 12345).data(), angles.pairs(), x.data(), 2, 80);
    for (size_t head : {0, 1}) {
      const float* a = before.data() + head * 80;
      const float* b = x.data() + head * 80;
      EXPECT_NEAR(sum_squares(b, 32), sum_squares(a, 32), 1e-4);
      EXPECT_NE(b[0], a[0]);
      EXPECT_EQ(first_difference(a + 32, b + 32, 48), 48u);
    }
  }
}

TEST(Rope, ScoresDependOnTheDistanceOnly) {
  const Rope angles({.head_dim = 128, .base = 500000});
  const auto q = random_floats(128, 3), k = random_floats(128, 4);
  for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
    const auto score = [&](int64_t q_at, int64_t k_at) {
      auto a = q, b = k;
      rope(layout, rotations_at(angles, q_at).data(), 64, a.data(), 1, 128);
      rope(layout, rotations_at(angles, k_at).data(), 64, b.data(), 1, 128);
      return dot(a.data(), b.data(), 128);
    };
    EXPECT_NEAR(score(17, 5), score(100017, 100005), 1e-4);
    EXPECT_GT(std::fabs(score(17, 5) - score(17, 6)), 1e-3);
  }
}

// `angle(i)` in radians per position, and the magnitude, both from the formula of the scaling.
void expect_angles(const Rope& rope, const std::function<long double(size_t)>& angle, long double magnitude) {
  for (int64_t position : {0, 1, 7, 4095, 100000, 1000000}) {
    const auto rotations = rotations_at(rope, position);
    for (size_t i = 0; i < rope.pairs(); ++i) {
      const long double theta = static_cast<long double>(position) * angle(i);
      ASSERT_NEAR(rotations[i], static_cast<double>(std::cos(theta) * magnitude), 1e-7)
          << position << " pair " << i;
      ASSERT_NEAR(rotations[rope.pairs() + i], static_cast<double>(std::sin(theta) * magnitude), 1e-7)
          << position;
    }
  }
}

long double plain(long double base, size_t pair, size_t dims) {
  return std::pow(base, -2.0L * static_cast<long double>(pair) / static_cast<long double>(dims));
}

TEST(Rope, LinearScaling) {
  const Rope rope({.head_dim = 128, .scaling = RopeScaling::kLinear, .factor = 4});
  expect_angles(
      rope, [](size_t i) { return plain(10000, i, 128) / 4; }, 1);
}

TEST(Rope, NtkScaling) {
  const Rope rope({.head_dim = 128, .scaling = RopeScaling::kNtk, .factor = 8});
  const long double base = 10000 * std::pow(8.0L, 128.0L / 126);
  expect_angles(
      rope, [&](size_t i) { return plain(base, i, 128); }, 1);
  // What it is made for: the slowest pair is stretched by the whole factor, the fastest not at all.
  EXPECT_NEAR(rope.frequencies()[0], 1, 1e-15);
  EXPECT_NEAR(rope.frequencies()[63] * 8, static_cast<double>(plain(10000, 63, 128)), 1e-12);
}

TEST(Rope, YarnScaling) {
  RopeParams params{
      .head_dim = 128, .base = 1e6, .scaling = RopeScaling::kYarn, .factor = 4, .original_context = 32768};
  // Pairs that rotate 32 times and once in 32768 positions: 128 ln(32768 / (2 pi t)) / (2 ln 1e6) = 23.6
  // and 39.65.
  const long double low = 23, high = 40;
  const auto angle = [&](size_t i) {
    const long double y = (static_cast<long double>(i) - low) / (high - low);
    const long double keep = 1 - std::fmin(1.0L, std::fmax(0.0L, y));
    return plain(1e6L, i, 128) * (keep + (1 - keep) / 4);
  };
  expect_angles(Rope(params), angle, 1 + 0.1L * std::log(4.0L));
  params.attn_factor = 0.5;
  expect_angles(Rope(params), angle, 0.5L * (1 + 0.1L * std::log(4.0L)));
  params.ext_factor = 0;  // plain interpolation, without the magnitude
  expect_angles(
      Rope(params), [](size_t i) { return plain(1e6L, i, 128) / 4; }, 0.5L);
}

TEST(Rope, Llama3Scaling) {
  RopeParams params{.head_dim = 128,
                    .base = 500000,
                    .scaling = RopeScaling::kLlama3,
                    .factor = 8,
                    .original_context = 8192,
                    .low_freq_factor = 1,
                    .high_freq_factor = 4};
  const auto divisor = [](size_t i) {
    const long double wavelength = 2 * kPi / plain(500000, i, 128);
    if (wavelength < 8192 / 4.0L) return 1.0L;
    if (wavelength > 8192) return 8.0L;
    const long double smooth = (8192 / wavelength - 1) / (4 - 1);
    return 1 / ((1 - smooth) / 8 + smooth);
  };
  expect_angles(
      Rope(params), [&](size_t i) { return plain(500000, i, 128) / divisor(i); }, 1);
  EXPECT_EQ(divisor(0), 1);
  EXPECT_EQ(divisor(63), 8);

  // The same factors read from a file, rounded to float there.
  for (size_t i = 0; i < 64; ++i) params.freq_factors.push_back(static_cast<float>(divisor(i)));
  expect_angles(
      Rope(params),
      [&](size_t i) { return plain(500000, i, 128) / static_cast<long double>(params.freq_factors[i]); }, 1);
}

TEST(Rope, NamesOfScalings) {
  EXPECT_EQ(rope_scaling_by_name("yarn"), RopeScaling::kYarn);
  EXPECT_THROW(rope_scaling_by_name("longer"), Error);
}

TEST(Rope, BadParametersAreNamed) {
  const auto text = [](const RopeParams& params) -> std::string {
    try {
      Rope rope(params);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(text({.head_dim = 64}), "accepted");
  EXPECT_NE(text({}).find("head_dim"), std::string::npos);
  EXPECT_NE(text({.head_dim = 63}).find("even"), std::string::npos);
  EXPECT_NE(text({.head_dim = 64, .rotated = 66}).find("66"), std::string::npos);
  EXPECT_NE(text({.head_dim = 64, .base = 0}).find("base"), std::string::npos);
  EXPECT_NE(text({.head_dim = 64, .factor = -1}).find("factor"), std::string::npos);
  EXPECT_NE(text({.head_dim = 64, .scaling = RopeScaling::kYarn}).find("context"), std::string::npos);
  EXPECT_NE(text({.head_dim = 2, .scaling = RopeScaling::kNtk}).find("ntk"), std::string::npos);
  EXPECT_NE(text({.head_dim = 64, .freq_factors = {1, 2}}).find("2 frequency factors for 32"),
            std::string::npos);
  EXPECT_NE(text({.head_dim = 4, .freq_factors = {1, 0}}).find("positive"), std::string::npos);
}

TEST(Rope, EveryTargetIsThePlainLoop) {
  const auto values = random_floats(4000, 5), angles = random_floats(4000, 6);
  for_each_target([&](const std::string& target) {
    for (size_t offset = 0; offset < 4; ++offset) {
      for (size_t pairs = 0; pairs <= 70; ++pairs) {
        const size_t head_dim = 2 * pairs + offset, heads = 3;
        const OffsetFloats rotations(angles, 2 * pairs, (offset + 1) % 4);
        for (RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalfSplit}) {
          OffsetFloats want(values, heads * head_dim, 0), got(values, heads * head_dim, offset);
          for (size_t h = 0; h < heads; ++h) {
            auto* head = want.data() + h * head_dim;
            layout == RopeLayout::kInterleaved ? ref::rope_interleaved(rotations.data(), pairs, head)
                                               : ref::rope_half_split(rotations.data(), pairs, head);
          }
          rope(layout, rotations.data(), pairs, got.data(), heads, head_dim);
          ASSERT_EQ(first_difference(want.data(), got.data(), want.size()), want.size())
              << target << " " << pairs;
        }
      }
    }
  });
}

// Mistral 3's queries: longer by 1 + growth * ln(1 + floor(position / original context)).
TEST(Rope, MagnitudeGrowsWithThePosition) {
  const Rope plain({.head_dim = 8}), grows({.head_dim = 8, .original_context = 10, .growth = 0.5});
  for (const int64_t position : {0, 9, 10, 25, 100}) {
    const double factor = 1 + 0.5 * std::log(1 + std::floor(static_cast<double>(position) / 10));
    std::vector<float> a(plain.rotation_floats()), b(a.size());
    plain.rotations(position, a.data());
    grows.rotations(position, b.data());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(b[i], a[i] * factor, 1e-6) << position << " " << i;
  }
  EXPECT_THROW(Rope({.head_dim = 8, .growth = 0.5}), Error);  // no original context
  EXPECT_THROW(Rope({.head_dim = 8, .original_context = 10, .growth = NAN}), Error);
}

}  // namespace
}  // namespace butterfly::kernels
