// The table against dtype_table, and the functions that take any element type.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/quant/quant.h"
#include "kernels/quant/tame_scale.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

TEST(QuantTable, HasOneRowPerQuantisedTypeInTheOrderOfDtypeTable) {
  size_t next = 0;
  for (const DTypeInfo& info : dtype_table()) {
    if (!info.quantised()) continue;
    ASSERT_LT(next, quant_table().size()) << info.name << " has no row";
    EXPECT_EQ(quant_table()[next].dtype, info.dtype) << info.name;
    EXPECT_EQ(&quant_type(info.dtype), &quant_table()[next]);
    ++next;
  }
  EXPECT_EQ(next, quant_table().size());
}

TEST(QuantTable, GroupsAndBlocksFitIntBlock) {
  for (const QuantType& type : quant_table()) {
    const DTypeInfo& info = dtype_info(type.dtype);
    EXPECT_LE(info.block_values, sizeof(IntBlock::q)) << info.name;
    EXPECT_TRUE(type.group_values == 16 || type.group_values == 32) << info.name;
    EXPECT_EQ(info.block_values % type.group_values, 0u) << info.name;
    EXPECT_LE(info.block_values / type.group_values, std::size(IntBlock{}.scale)) << info.name;
  }
}

TEST(QuantTable, PlainTypesAreNotQuantised) {
  EXPECT_DEATH(quant_type(DType::kF16), "F16 is not a quantised type");
}

// A block of random bytes. The scales are small numbers, so that every value and its parts are normal
// floats.
std::vector<std::byte> random_block(const QuantType& type, uint64_t seed) {
  const DTypeInfo& info = dtype_info(type.dtype);
  std::vector<std::byte> bytes(info.block_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random_u64(seed, 0, i));
  const auto put = [&](size_t at, uint64_t stream) {
    const uint16_t half = f32_to_f16(0.5f + random_uniform(seed, stream, 0));
    std::memcpy(&bytes[at], &half, sizeof half);
  };
  switch (type.dtype) {
    case DType::kQ2_K:
      put(80, 1), put(82, 2);
      break;
    case DType::kQ3_K:
      put(108, 1);
      break;
    case DType::kQ6_K:
      put(208, 1);
      break;
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      put(0, 1), put(2, 2);
      break;
    case DType::kTQ1_0:
      put(52, 1);
      break;
    case DType::kTQ2_0:
      put(64, 1);
      break;
    case DType::kIQ1_M:
      tame_scale(type.dtype, bytes.data());
      break;
    case DType::kMXFP4:
      bytes[0] = static_cast<std::byte>(120 + seed % 16);
      break;
    default:
      put(0, 1);
  }
  return bytes;
}

// The integers describe the floats exactly: the value over them, rounded once, is what dequantize gives.
TEST(QuantTable, IntegersAndFloatsAreTheSameValues) {
  for (const QuantType& type : quant_table()) {
    const DTypeInfo& info = dtype_info(type.dtype);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const auto bytes = random_block(type, seed);
      std::vector<float> floats(info.block_values);
      type.dequantize(bytes.data(), floats.data(), floats.size());
      IntBlock block;
      type.unpack(bytes.data(), &block);
      for (size_t i = 0; i < floats.size(); ++i) {
        const size_t g = i / type.group_values;
        if (!type.has_min) {
          ASSERT_EQ(block.min[g], 0) << info.name;
        }
        const double value =
            double{block.d} * block.scale[g] * block.q[i] - double{block.dmin} * block.min[g];
        ASSERT_EQ(static_cast<float>(value), floats[i]) << info.name << " seed " << seed << " value " << i;
      }
    }
  }
}

TEST(QuantTable, BlocksMayStartAtAnyByte) {
  for (const QuantType& type : quant_table()) {
    const auto bytes = random_block(type, 7);
    const size_t count = dtype_info(type.dtype).block_values;
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
    std::vector<float> a(count), b(count);
    type.dequantize(bytes.data(), a.data(), count);
    type.dequantize(shifted.data() + 1, b.data(), count);
    EXPECT_EQ(a, b) << dtype_name(type.dtype);
    if (type.quantize == nullptr) continue;
    std::vector<std::byte> aligned(bytes.size());
    type.quantize(a.data(), aligned.data(), count);
    type.quantize(a.data(), shifted.data() + 1, count);
    EXPECT_EQ(std::memcmp(aligned.data(), shifted.data() + 1, aligned.size()), 0) << dtype_name(type.dtype);
  }
}

TEST(ToFromFloat, PlainTypes) {
  const std::vector<float> values = {0.0f, -1.5f, 65504.0f, 1e-7f, 3.14159274f};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_TRUE(can_quantize(dtype));
    std::vector<std::byte> bytes(*dtype_bytes(dtype, values.size()) + 1);
    std::vector<float> back(values.size());
    from_float(dtype, values.data(), bytes.data() + 1, values.size());  // misaligned on purpose
    to_float(dtype, bytes.data() + 1, back.data(), back.size());
    for (size_t i = 0; i < values.size(); ++i) {
      float expected = values[i];
      if (dtype == DType::kF16) expected = f16_to_f32(f32_to_f16(expected));
      if (dtype == DType::kBF16) expected = bf16_to_f32(f32_to_bf16(expected));
      EXPECT_EQ(back[i], expected) << dtype_name(dtype) << " value " << i;
    }
  }
}

TEST(ToFromFloat, QuantisedTypesGoThroughTheirRow) {
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); ++i) values[i] = random_normal(1, 2, i);
  for (const QuantType& type : quant_table()) {
    EXPECT_EQ(can_quantize(type.dtype), type.quantize != nullptr);
    if (type.quantize == nullptr) continue;
    std::vector<std::byte> a(*dtype_bytes(type.dtype, values.size())), b(a.size());
    from_float(type.dtype, values.data(), a.data(), values.size());
    type.quantize(values.data(), b.data(), values.size());
    EXPECT_EQ(a, b);
    std::vector<float> c(values.size()), d(values.size());
    to_float(type.dtype, a.data(), c.data(), c.size());
    type.dequantize(a.data(), d.data(), d.size());
    EXPECT_EQ(c, d);
  }
}

TEST(ToFromFloat, SayWhatCannotBeDone) {
  std::vector<float> values(256);
  std::vector<std::byte> bytes(4096);
  for (const DType dtype : {DType::kIQ4_NL, DType::kIQ4_XS, DType::kI8, DType::kI32}) {
    EXPECT_FALSE(can_quantize(dtype));
    try {
      from_float(dtype, values.data(), bytes.data(), values.size());
      FAIL() << dtype_name(dtype) << " was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUnsupported);
      EXPECT_NE(std::string(error.what()).find(dtype_name(dtype)), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(to_float(DType::kI32, bytes.data(), values.data(), values.size()), Error);
  EXPECT_DEATH(to_float(DType::kQ4_K, bytes.data(), values.data(), 128), "128 values of Q4_K.*hold 256");
  EXPECT_DEATH(from_float(DType::kQ8_0, values.data(), bytes.data(), 31), "31 values of Q8_0.*hold 32");
}

TEST(ToFromFloat, NothingIsFine) {
  for (const DTypeInfo& info : dtype_table()) {
    if (!can_quantize(info.dtype)) continue;
    from_float(info.dtype, nullptr, nullptr, 0);
    to_float(info.dtype, nullptr, nullptr, 0);
  }
}

}  // namespace
}  // namespace butterfly::kernels
