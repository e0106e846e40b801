#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace butterfly {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with the Random123 library of the paper's authors.
TEST(Rng, PhiloxGivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Every half of every argument has to reach the result.
TEST(Rng, SeedStreamAndIndexAllMatter) {
  const uint64_t plain = random_u64(1, 2, 3);
  for (int bit : {0, 31, 32, 63}) {
    const uint64_t flip = uint64_t{1} << bit;
    EXPECT_NE(plain, random_u64(1 ^ flip, 2, 3)) << "seed bit " << bit;
    EXPECT_NE(plain, random_u64(1, 2 ^ flip, 3)) << "stream bit " << bit;
    EXPECT_NE(plain, random_u64(1, 2, 3 ^ flip)) << "index bit " << bit;
  }
  EXPECT_EQ(plain, random_u64(1, 2, 3));
}

// Fixed for ever: sampled tokens and training runs depend on these bits.
TEST(Rng, DrawsAreMadeOfPhiloxWordsInAFixedWay) {
  EXPECT_EQ(random_u64(0, 0, 0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(random_u64(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u), 0x94fdccebd16cfe09u);
  EXPECT_EQ(random_uniform(0, 0, 0), static_cast<float>(0xe169c5) * 0x1p-24f);
}

TEST(Rng, UniformStaysBelowOneAndFillsTheInterval) {
  std::vector<int> bucket(64);
  constexpr int kDraws = 64 * 4096;
  for (int i = 0; i < kDraws; ++i) {
    const float u = random_uniform(7, 0, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++bucket[static_cast<size_t>(u * 64)];
  }
  double chi_square = 0;
  for (int n : bucket) chi_square += (n - 4096.0) * (n - 4096.0) / 4096.0;
  EXPECT_LT(chi_square, 120) << "63 degrees of freedom: 120 is passed once in 60 000 seeds";
}

TEST(Rng, NormalHasTheMomentsOfANormal) {
  constexpr int kDraws = 1 << 18;
  double sum = 0, square = 0, cube = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random_normal(7, 1, i);
    ASSERT_LE(std::abs(x), 6.0);
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(square / kDraws, 1, 0.015);
  EXPECT_NEAR(cube / kDraws, 0, 0.03);
  EXPECT_NEAR(fourth / kDraws, 2.9, 0.06);  // 3 - 1.2 / 12 for twelve terms
}

TEST(Rng, NormalIsAWholeNumberOfSteps) {
  for (int i = 0; i < 1000; ++i) {
    const float steps = random_normal(3, 4, i) * 0x1p21f;
    EXPECT_EQ(steps, std::nearbyint(steps));
    EXPECT_LT(std::abs(steps), 0x1p24f);
  }
}

}  // namespace
}  // namespace butterfly
