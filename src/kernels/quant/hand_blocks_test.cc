// Blocks worked out by hand, so that the layouts are held without any data file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/quant/mxfp4.h"
#include "kernels/quant/nvfp4.h"
#include "kernels/quant/q4_0.h"
#include "kernels/quant/q4_k.h"
#include "kernels/quant/q6_k.h"
#include "kernels/quant/q8_0.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

constexpr uint16_t kHalf = 0x3800;     // 0.5 as f16
constexpr uint16_t kQuarter = 0x3400;  // 0.25 as f16

template <typename Block>
const std::byte* bytes_of(const Block& block) {
  return reinterpret_cast<const std::byte*>(&block);
}

template <typename Block>
std::vector<uint8_t> raw(const Block& block) {
  std::vector<uint8_t> bytes(sizeof block);
  std::memcpy(bytes.data(), &block, sizeof block);
  return bytes;
}

TEST(Q4_0, HandBlockBothWays) {
  // Low halves count up, high halves count down: values -4, -3.5 ... 3.5, then 3.5 ... -4.
  BlockQ4_0 block{.d = kHalf, .qs = {}};
  std::array<float, 32> expected;
  for (int i = 0; i < 16; ++i) {
    block.qs[i] = static_cast<uint8_t>(i | (15 - i) << 4);
    expected[i] = 0.5f * static_cast<float>(i - 8);
    expected[i + 16] = 0.5f * static_cast<float>(7 - i);
  }
  std::array<float, 32> found;
  q4_0_dequantize(bytes_of(block), found.data(), 32);
  EXPECT_EQ(found, expected);

  BlockQ4_0 written;
  q4_0_quantize(expected.data(), reinterpret_cast<std::byte*>(&written), 32);
  EXPECT_EQ(raw(written), raw(block));
}

// Four bits are a sign, two bits of exponent and one of mantissa: 0 to 6, here times 4 (e - 127 = 2).
TEST(MXFP4, HandBlockBothWays) {
  BlockMXFP4 block{.e = 129, .qs = {}};
  constexpr std::array<float, 8> kSizes = {0, 2, 4, 6, 8, 12, 16, 24};
  std::array<float, 32> expected;
  for (int i = 0; i < 16; ++i) {
    const int high = i == 8 ? 0 : i;  // zero is written without a sign
    block.qs[i] = static_cast<uint8_t>((i % 8) | high << 4);
    expected[i] = kSizes[i % 8];
    expected[i + 16] = high < 8 ? kSizes[high] : -kSizes[high - 8];
  }
  std::array<float, 32> found;
  mxfp4_dequantize(bytes_of(block), found.data(), 32);
  EXPECT_EQ(found, expected);
  BlockMXFP4 written;
  mxfp4_quantize(expected.data(), reinterpret_cast<std::byte*>(&written), 32);
  EXPECT_EQ(raw(written), raw(block));
}

TEST(MXFP4, EveryScaleIsItsPowerOfTwo) {
  for (int e = 0; e < 256; ++e)
    EXPECT_EQ(mxfp4_scale(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
}

// A neighbour of the usual power is taken where it is nearer: 7.9 alone would be 6 of the usual one.
TEST(MXFP4, ChoosesThePowerOfTheLeastError) {
  std::array<float, 32> values{};
  values[3] = 7.9f;
  BlockMXFP4 written;
  mxfp4_quantize(values.data(), reinterpret_cast<std::byte*>(&written), 32);
  EXPECT_EQ(written.e, 128);
  mxfp4_dequantize(bytes_of(written), values.data(), 32);
  EXPECT_EQ(values[3], 8.0f);
}

TEST(Q8_0, HandBlockBothWays) {
  BlockQ8_0 block{.d = kQuarter, .qs = {}};
  std::array<float, 32> expected;
  for (int i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<int8_t>(8 * i - 127);
    expected[i] = 2.0f * static_cast<float>(i) - 31.75f;
  }
  std::array<float, 32> found;
  q8_0_dequantize(bytes_of(block), found.data(), 32);
  EXPECT_EQ(found, expected);

  BlockQ8_0 written;
  q8_0_quantize(expected.data(), reinterpret_cast<std::byte*>(&written), 32);
  EXPECT_EQ(raw(written), raw(block));
}

TEST(Q8_0, RoundsToTheNearestStepTiesToEven) {
  // The largest value, 127, makes the step exactly 1.
  std::array<float, 32> values = {127, 0.4f, 0.6f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -126.7f};
  BlockQ8_0 block;
  q8_0_quantize(values.data(), reinterpret_cast<std::byte*>(&block), 32);
  EXPECT_EQ(block.d, 0x3c00);
  EXPECT_THAT(std::vector<int>(block.qs, block.qs + 9),
              ::testing::ElementsAre(127, 0, 1, 0, 2, 2, 0, -2, -127));
}

TEST(Q4_K, HandBlock) {
  // Scales 1 2 3 63 4 17 34 50 and minima 0 5 63 10 8 21 40 61, packed by hand.
  BlockQ4_K block{.d = kHalf,
                  .dmin = kQuarter,
                  .scales = {0x01, 0x42, 0x83, 0xff, 0x00, 0x45, 0xbf, 0xca, 0x84, 0x51, 0x82, 0xd2},
                  .qs = {}};
  block.qs[0] = 0x5a;        // value 0: q 10, value 32: q 5
  block.qs[32 + 3] = 0xf1;   // value 67: q 1, value 99: q 15
  block.qs[64 + 31] = 0x7c;  // value 159: q 12, value 191: q 7
  block.qs[96 + 16] = 0x90;  // value 208: q 0, value 240: q 9

  IntBlock ints;
  q4_k_unpack(bytes_of(block), &ints);
  EXPECT_THAT(std::vector<int>(ints.scale, ints.scale + 8),
              ::testing::ElementsAre(1, 2, 3, 63, 4, 17, 34, 50));
  EXPECT_THAT(std::vector<int>(ints.min, ints.min + 8), ::testing::ElementsAre(0, 5, 63, 10, 8, 21, 40, 61));
  EXPECT_EQ(ints.d, 0.5f);
  EXPECT_EQ(ints.dmin, 0.25f);

  std::array<float, 256> found;
  q4_k_dequantize(bytes_of(block), found.data(), 256);
  constexpr float kMinima[] = {0, 1.25f, 15.75f, 2.5f, 2, 5.25f, 10, 15.25f};
  for (size_t i = 0; i < 256; ++i) {
    switch (i) {
      case 0:
        EXPECT_EQ(found[i], 5.0f);
        break;  // 0.5 *  1 * 10 -  0
      case 32:
        EXPECT_EQ(found[i], 3.75f);
        break;  // 0.5 *  2 *  5 -  1.25
      case 67:
        EXPECT_EQ(found[i], -14.25f);
        break;  // 0.5 *  3 *  1 - 15.75
      case 99:
        EXPECT_EQ(found[i], 470.0f);
        break;  // 0.5 * 63 * 15 -  2.5
      case 159:
        EXPECT_EQ(found[i], 22.0f);
        break;  // 0.5 *  4 * 12 -  2
      case 191:
        EXPECT_EQ(found[i], 54.25f);
        break;  // 0.5 * 17 *  7 -  5.25
      case 240:
        EXPECT_EQ(found[i], 209.75f);
        break;  // 0.5 * 50 *  9 - 15.25
      default:
        EXPECT_EQ(found[i], -kMinima[i / 32]) << "value " << i;
    }
  }
}

TEST(Q4_K, WritesAGridThatFitsExactly) {
  // d = 1/16, dmin = 1/8; group g: scale 63 - g, minimum 56 + g, every q present. The only exact answer is
  // the block itself.
  std::array<float, 256> values;
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 32; ++i)
      values[g * 32 + i] =
          0.0625f * static_cast<float>((63 - g) * (i % 16)) - 0.125f * static_cast<float>(56 + g);
  BlockQ4_K block;
  q4_k_quantize(values.data(), reinterpret_cast<std::byte*>(&block), 256);
  IntBlock ints;
  q4_k_unpack(bytes_of(block), &ints);
  EXPECT_EQ(ints.d, 0.0625f);
  EXPECT_EQ(ints.dmin, 0.125f);
  for (int g = 0; g < 8; ++g) {
    EXPECT_EQ(ints.scale[g], 63 - g);
    EXPECT_EQ(ints.min[g], 56 + g);
  }
  for (int i = 0; i < 256; ++i) ASSERT_EQ(ints.q[i], i % 16) << "value " << i;
}

TEST(Q6_K, HandBlock) {
  BlockQ6_K block{.ql = {}, .qh = {}, .scales = {}, .d = kQuarter};
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(g % 2 == 0 ? -128 + g : 127 - g);
  block.ql[5] = 0x7b;        // value 5: low bits 11, value 69: low bits 7
  block.qh[5] = 0b11011001;  // values 5, 37, 69, 101: top bits 1, 2, 1, 3
  block.ql[64 + 63] = 0xf0;  // value 191: low bits 0, value 255: low bits 15
  std::array<float, 256> found;
  q6_k_dequantize(bytes_of(block), found.data(), 256);
  EXPECT_EQ(found[5], 0.25f * -128 * (27 - 32));
  EXPECT_EQ(found[37], 0.25f * (-128 + 2) * (32 - 32));
  EXPECT_EQ(found[69], 0.25f * (-128 + 4) * (23 - 32));
  EXPECT_EQ(found[101], 0.25f * (-128 + 6) * (48 - 32));
  EXPECT_EQ(found[191], 0.25f * (127 - 11) * -32);
  EXPECT_EQ(found[255], 0.25f * (127 - 15) * (15 - 32));
  EXPECT_EQ(found[16], 0.25f * (127 - 1) * -32);
}

// Worked out from what the bits mean: E2M1 times E4M3, in doubles, for all scales and points.
TEST(NVFP4, EveryValueIsItsTwoFloatsMultiplied) {
  constexpr double kPoints[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int scale = 0; scale < 256; ++scale) {
    const int exponent = scale >> 3 & 15, mantissa = scale & 7;
    double size = exponent == 0 ? mantissa / 512.0 : std::pow(2.0, exponent - 7) * (1 + mantissa / 8.0);
    if (scale == 0x7f) size = 0;
    BlockNVFP4 block{.d = {0, 0, static_cast<uint8_t>(scale), 0}, .qs = {}};
    // The third group: value i counts up, value i + 8 has the other sign.
    for (int i = 0; i < 8; ++i) block.qs[16 + i] = static_cast<uint8_t>(i | (8 + i) << 4);
    std::array<uint16_t, 64> found;
    nvfp4_to_f16(bytes_of(block), found.data(), 64);
    for (size_t i = 0; i < 64; ++i) {
      const double want = i < 32 || i >= 48 ? 0 : (i < 40 ? 1 : -1) * kPoints[i % 8] * size;
      ASSERT_EQ(double{f16_to_f32(found[i])}, want) << "scale " << scale << " value " << i;
    }
  }
}

}  // namespace
}  // namespace butterfly::kernels
