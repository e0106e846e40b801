// Gradients in fewer bits: every target against the plain loop, hand values, and that nothing is lost for
// good.
#include "kernels/optim/gradient_code.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kCounts[] = {0, 1, 7, 16, 33, 127, 128, 129, 256, 1000, 4099};

uint32_t bits_of(float x) { return std::isnan(x) ? 0x7fc00000u : std::bit_cast<uint32_t>(x); }
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(bits_of(x));
  return bits;
}

TEST(GradientCode, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string& target) {
    for (const size_t count : kCounts) {
      for (const bool wild : {false, true}) {
        const auto values = wild ? wild_floats(count, 1) : random_floats(count, 1);
        {
          auto want = values, got = values;
          std::vector<uint16_t> want_code(count), got_code(count);
          ref::encode_bf16(want.data(), want_code.data(), count);
          encode_bf16(got.data(), got_code.data(), count);
          ASSERT_EQ(got_code, want_code) << target << " " << count;
          ASSERT_EQ(bits_of(got), bits_of(want)) << target << " " << count;
          decode_bf16(got_code.data(), got.data(), count);
          ASSERT_EQ(bits_of(got), bits_of(want)) << target << " " << count;
        }
        auto want = values, got = values, want_left = random_floats(count, 2), got_left = want_left;
        std::vector<float> want_scales(code_blocks(count)), got_scales = want_scales;
        std::vector<int8_t> want_code(count), got_code(count);
        ref::encode_int8(want.data(), want_left.data(), want_scales.data(), want_code.data(), count);
        encode_int8(got.data(), got_left.data(), got_scales.data(), got_code.data(), count);
        ASSERT_EQ(got_code, want_code) << target << " " << count;
        ASSERT_EQ(bits_of(got_scales), bits_of(want_scales)) << target << " " << count;
        ASSERT_EQ(bits_of(got), bits_of(want)) << target << " " << count;
        ASSERT_EQ(bits_of(got_left), bits_of(want_left)) << target << " " << count;
        std::vector<float> decoded(count);
        decode_int8(got_scales.data(), got_code.data(), decoded.data(), count);
        ASSERT_EQ(bits_of(decoded), bits_of(got)) << target << " " << count;

        want = got = values;
        want_left = got_left = random_floats(count, 2);
        want_scales.assign(code4_blocks(count), 0);
        got_scales = want_scales;
        want_code.assign(code4_bytes(count), 1);
        got_code.assign(code4_bytes(count), 2);
        ref::encode_int4(want.data(), want_left.data(), want_scales.data(), want_code.data(), count);
        encode_int4(got.data(), got_left.data(), got_scales.data(), got_code.data(), count);
        ASSERT_EQ(got_code, want_code) << target << " " << count;
        ASSERT_EQ(bits_of(got_scales), bits_of(want_scales)) << target << " " << count;
        ASSERT_EQ(bits_of(got), bits_of(want)) << target << " " << count;
        ASSERT_EQ(bits_of(got_left), bits_of(want_left)) << target << " " << count;
        decode_int4(got_scales.data(), got_code.data(), decoded.data(), count);
        ASSERT_EQ(bits_of(decoded), bits_of(got)) << target << " " << count;
        ref::decode_int4(got_scales.data(), got_code.data(), decoded.data(), count);
        ASSERT_EQ(bits_of(decoded), bits_of(got)) << target << " " << count;
      }
    }
  });
}

TEST(GradientCode, HandValues) {
  std::vector<float> values = {127, -63.5f, 0.4f, -0.4f, 0}, left = {0, 0, 0.2f, 0, 0};
  std::vector<float> scales(1);
  std::vector<int8_t> code(5);
  encode_int8(values.data(), left.data(), scales.data(), code.data(), 5);
  EXPECT_EQ(scales[0], 1.0f);
  EXPECT_EQ(code, (std::vector<int8_t>{127, -64, 1, 0, 0}));  // -63.5: to even; 0.4 + 0.2: up
  EXPECT_EQ(values, (std::vector<float>{127, -64, 1, 0, 0}));
  EXPECT_FLOAT_EQ(left[1], 0.5f);
  EXPECT_FLOAT_EQ(left[2], -0.4f);
  EXPECT_FLOAT_EQ(left[3], -0.4f);
  EXPECT_FALSE(std::signbit(values[3]));  // as whoever decodes a 0 has it

  std::vector<float> few = {7, -3.5f, 0.4f, -7, 1}, rest = {0, 0, 0.2f, 0, 0};
  std::vector<int8_t> nibbles(code4_bytes(5));
  ASSERT_EQ(nibbles.size(), 3u);
  encode_int4(few.data(), rest.data(), scales.data(), nibbles.data(), 5);
  EXPECT_EQ(scales[0], 1.0f);
  EXPECT_EQ(few, (std::vector<float>{7, -4, 1, -7, 1}));
  // 7 and -7; -4 and 1; 1 alone.
  EXPECT_EQ(nibbles, (std::vector<int8_t>{static_cast<int8_t>(0x97), 0x1c, 0x01}));
  EXPECT_FLOAT_EQ(rest[1], 0.5f);
  EXPECT_FLOAT_EQ(rest[2], -0.4f);

  float near_one = 1.0f + 0x1p-9f;
  uint16_t half = 0;
  encode_bf16(&near_one, &half, 1);
  EXPECT_EQ(half, 0x3f80);
  EXPECT_EQ(near_one, 1.0f);
}

TEST(GradientCode, ABrokenGradientStaysBrokenAndATinyOneIsKept) {
  std::vector<float> values(300, 1.0f), left(300);
  values[200] = INFINITY;
  std::vector<float> scales(code_blocks(300));
  std::vector<int8_t> code(300);
  encode_int8(values.data(), left.data(), scales.data(), code.data(), 300);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_TRUE(std::isnan(values[128]) && std::isnan(values[255]));
  EXPECT_EQ(values[256], 1.0f);

  std::vector<float> tiny(200, 0x1p-120f), kept(200);
  encode_int8(tiny.data(), kept.data(), scales.data(), code.data(), 200);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(tiny[i], 0.0f);
    EXPECT_EQ(kept[i], 0x1p-120f);
  }
}

// A value far below the scale of its block comes through after some steps.
TEST(GradientCode, WhatOneStepLosesALaterOneSends) {
  constexpr size_t kCount = 256, kSteps = 1000;
  std::vector<float> left(kCount), scales(code_blocks(kCount)), sums(kCount);
  std::vector<int8_t> code(kCount);
  for (size_t step = 0; step < kSteps; ++step) {
    std::vector<float> values(kCount, 0.001f);
    values[0] = values[128] = 1;
    encode_int8(values.data(), left.data(), scales.data(), code.data(), kCount);
    for (size_t i = 0; i < kCount; ++i) sums[i] += values[i];
  }
  for (size_t i = 1; i < 128; ++i) EXPECT_NEAR(sums[i], 0.001f * kSteps, 0.005f) << i;

  left.assign(kCount, 0);
  sums.assign(kCount, 0);
  scales.resize(code4_blocks(kCount));
  for (size_t step = 0; step < kSteps; ++step) {
    std::vector<float> values(kCount, 0.001f);
    values[0] = values[128] = 1;
    encode_int4(values.data(), left.data(), scales.data(), code.data(), kCount);
    for (size_t i = 0; i < kCount; ++i) sums[i] += values[i];
  }
  for (size_t i = 1; i < 64; ++i) EXPECT_NEAR(sums[i], 0.001f * kSteps, 0.1f) << i;
}

}  // namespace
}  // namespace butterfly::kernels
