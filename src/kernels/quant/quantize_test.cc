// What every quantiser promises on any row: bounded error, finite output, the same bytes each time and
// everywhere.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/quant/quant.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kRow = 512;  // two super-blocks

std::vector<QuantType> writable_types() {
  std::vector<QuantType> types;
  for (const QuantType& type : quant_table())
    if (type.quantize != nullptr) types.push_back(type);
  return types;
}

std::vector<std::byte> quantize(const QuantType& type, const std::vector<float>& row) {
  std::vector<std::byte> bytes(*dtype_bytes(type.dtype, row.size()));
  type.quantize(row.data(), bytes.data(), row.size());
  return bytes;
}

std::vector<float> round_trip(const QuantType& type, const std::vector<float>& row) {
  std::vector<float> back(row.size());
  type.dequantize(quantize(type, row).data(), back.data(), back.size());
  return back;
}

// Normal values, times `size`, plus `shift`; now and then one value much larger than the rest.
std::vector<float> random_row(uint64_t seed, float size, float shift) {
  std::vector<float> row(kRow);
  for (size_t i = 0; i < kRow; ++i) {
    const float spike = random_u64(seed, 1, i) % 64 == 0 ? 8.0f : 1.0f;
    row[i] = size * (spike * random_normal(seed, 0, i) + shift);
  }
  return row;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return sum;
}

// The numbers that make the types differ: steps of q on one side of zero (or from the minimum up), and of the
// integer scales; 0 where the scale is a float of its own, with this relative rounding.
struct Grid {
  double q_steps;
  double scale_steps;
  double rounding = 0x1p-11;
};
Grid grid_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return {8, 0};
    case DType::kQ4_1:
      return {15, 0};
    case DType::kQ5_0:
      return {16, 0};
    case DType::kQ5_1:
      return {31, 0};
    case DType::kQ8_0:
      return {127, 0};
    case DType::kQ2_K:
      return {3, 15};
    case DType::kQ3_K:
      return {4, 31};
    case DType::kQ4_K:
      return {15, 63};
    case DType::kQ5_K:
      return {31, 63};
    case DType::kQ6_K:
      return {32, 127};
    case DType::kMXFP4:  // the widest step is a third of the largest value; 1.25 lies between 1 and 1.5
      return {3, 0, 0.2};
    case DType::kQ1_0:  // signs only: a value may be off by the largest
      return {1, 0};
    default:
      return {};
  }
}

struct Extent {
  double low = 0;
  double high = 0;
};
// The range a grid has to span; with zero in it where the type's offset cannot be positive or there is none.
Extent extent(std::span<const float> values, bool with_zero) {
  Extent e = with_zero ? Extent{} : Extent{values[0], values[0]};
  for (const float x : values) e = {std::min<double>(e.low, x), std::max<double>(e.high, x)};
  return e;
}

// RMS error that a group may have, from simple rounding on the grid which just spans it:
// - around zero: steps of largest / q_steps. The side that lacks a step may be off by a whole one, the rest
// by half;
// - from a minimum: half a step of range / q_steps.
// An integer scale makes steps coarser by at most 1 / scale_steps of the block's coarsest; an integer minimum
// is off by half of 1 / scale_steps of the block's largest minimum. f16 adds 2^-11 of each, and 2^-24 where
// it runs out of bits.
double rms_bound(const QuantType& type, std::span<const float> block, std::span<const float> group) {
  const Grid grid = grid_of(type.dtype);
  const bool two_levels = grid.scale_steps > 0;
  const auto step = [&](std::span<const float> values) {
    const Extent e = extent(values, two_levels || !type.has_min);
    return (type.has_min ? e.high - e.low : std::max(-e.low, e.high)) / grid.q_steps;
  };
  const double coarsening = two_levels ? step(block) / grid.scale_steps : 0;
  double bound = (type.has_min ? 0.5 : 1.0) * (step(group) + coarsening);
  if (type.has_min && two_levels) bound += 0.5 * -extent(block, true).low / grid.scale_steps;
  const Extent all = extent(block, true);
  return bound + std::max(-all.low, all.high) * 0x1p-11 + grid.q_steps * 0x1p-24;
}

class Quantize : public ::testing::TestWithParam<QuantType> {};

void check_bounds(const QuantType& type, const std::vector<float>& row) {
  const std::vector<float> back = round_trip(type, row);
  const size_t block_values = dtype_info(type.dtype).block_values;
  const size_t n = type.group_values;
  for (size_t at = 0; at < row.size(); at += n) {
    const auto block = std::span(row).subspan(at / block_values * block_values, block_values);
    const auto group = std::span(row).subspan(at, n);
    const double bound = rms_bound(type, block, group);
    const double rms =
        std::sqrt(squared_distance(group, std::span(back).subspan(at, n)) / static_cast<double>(n));
    RC_ASSERT(rms <= bound);
    for (size_t i = at; i < at + n; ++i)
      RC_ASSERT(std::fabs(double{row[i]} - back[i]) <= bound * std::sqrt(static_cast<double>(n)));
  }
}

TEST_P(Quantize, ErrorIsBounded) {
  const QuantType type = GetParam();
  const auto holds = rc::check("error of a round trip stays under the bound of its grid", [&](uint64_t seed) {
    const int exponent = *rc::gen::inRange(-16, 12);
    const float shift = static_cast<float>(*rc::gen::inRange(-3, 4));
    check_bounds(type, random_row(seed, std::ldexp(1.0f, exponent), shift));
  });
  EXPECT_TRUE(holds);
}

TEST_P(Quantize, AnyBitsGiveFiniteValues) {
  const QuantType type = GetParam();
  const auto holds = rc::check("rows of arbitrary bits, NaN and infinity among them", [&](uint64_t seed) {
    std::vector<float> row(kRow);
    for (size_t i = 0; i < kRow; ++i)
      row[i] = std::bit_cast<float>(static_cast<uint32_t>(random_u64(seed, 2, i)));
    for (const float x : round_trip(type, row)) RC_ASSERT(std::isfinite(x));
  });
  EXPECT_TRUE(holds);
}

TEST_P(Quantize, OddRowsGiveFiniteValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  for (const float a :
       {0.0f, -0.0f, kTiny, -kTiny, 1e-30f, 6e-8f, 1e-6f, 70000.0f, 1e10f, kMax, -kMax, kInf, -kInf, kNan}) {
    for (const float b : {0.0f, 1.0f, -1.0f, a, -a}) {
      std::vector<float> row(kRow, b);
      for (size_t i = 0; i < kRow; i += 5) row[i] = a;
      for (const float x : round_trip(GetParam(), row)) ASSERT_TRUE(std::isfinite(x)) << a << " among " << b;
    }
  }
}

TEST_P(Quantize, NanCountsAsZero) {
  std::vector<float> row = random_row(3, 1, 0);
  row[5] = row[300] = std::numeric_limits<float>::quiet_NaN();
  const auto with_nan = quantize(GetParam(), row);
  row[5] = row[300] = 0;
  EXPECT_EQ(with_nan, quantize(GetParam(), row));
}

TEST_P(Quantize, ZerosStayZeros) {
  for (const float x : round_trip(GetParam(), std::vector<float>(kRow))) ASSERT_EQ(x, 0.0f);
}

// f16 has 11 bits, and below 2^-14 steps of 2^-24: the d of Q6_K is there for values under 0.25.
TEST_P(Quantize, ConstantsStayWithinOneRoundingOfTheScale) {
  const Grid grid = grid_of(GetParam().dtype);
  const double tiny = 0x1p-25 * grid.q_steps * std::max(1.0, grid.scale_steps + 1);
  for (const float c : {1.0f, -1.0f, 0.1f, -0.7f, 3.0f, 1000.0f})
    for (const float x : round_trip(GetParam(), std::vector<float>(kRow, c)))
      ASSERT_LE(std::fabs(double{x} - c), std::max(std::fabs(c) * grid.rounding, tiny)) << c;
}

TEST_P(Quantize, LargestValuesSaturate) {
  // Far beyond what an f16 scale reaches: the sign is kept and the output is the largest the type can say.
  std::vector<float> row(kRow, 3e38f);
  for (size_t i = 0; i < kRow; i += 2) row[i] = -3e38f;
  const auto back = round_trip(GetParam(), row);
  for (size_t i = 0; i < kRow; ++i)
    ASSERT_TRUE(i % 2 == 0 ? back[i] <= -65504.0f : back[i] >= 65504.0f) << back[i];
}

// A row that lies on a grid already is left alone by the types around zero whose scale is an f16 of its own.
// With a minimum there are two f16 to choose together, and a neighbouring pair may do as well. With integer
// scales d is chosen again from the group that needs most and the rest follows: values may move, but by less
// than the first time.
TEST_P(Quantize, SecondRoundTripMovesLittle) {
  const QuantType type = GetParam();
  const bool two_levels = grid_of(type.dtype).scale_steps > 0;
  const double limit = two_levels     ? 0.75
                       : type.has_min ? 1e-4
                                      : 0;  // of the first squared error; worst of 3000: 0.50, 2e-5, 0
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto row = random_row(seed, 1, seed % 3 == 0 ? 2.0f : 0.0f);
    const auto once = round_trip(type, row);
    const auto twice = round_trip(type, once);
    ASSERT_LE(squared_distance(once, twice), limit * squared_distance(row, once)) << "seed " << seed;
  }
}

// The same bytes on every machine, compiler and build: FNV-1a of a seeded row. A change of these numbers is a
// change of what the quantiser writes.
uint64_t fnv1a(const std::vector<std::byte>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

struct Golden {
  DType dtype;
  uint64_t hash;
};
constexpr Golden kGolden[] = {
    {DType::kQ4_0, 0x23030d9c1ad88981},  {DType::kQ4_1, 0xdc70c3e5c1ac8ffc},
    {DType::kQ5_0, 0x8edd4d239c5e79b6},  {DType::kQ5_1, 0xfe650d4b47483287},
    {DType::kQ8_0, 0xd43dab50dead22ad},  {DType::kQ2_K, 0xb94175aae1603302},
    {DType::kQ3_K, 0x8aa71bc1765fcc9b},  {DType::kQ4_K, 0xee066d946db23dd7},
    {DType::kQ5_K, 0x3f29807e64a20848},  {DType::kQ6_K, 0x9d67f00b9b28fd03},
    {DType::kMXFP4, 0xe6051dd55f534b98}, {DType::kQ1_0, 0x7e52b01b76a3caee},
};

TEST_P(Quantize, WritesTheSameBytesEverywhere) {
  const auto golden = std::find_if(std::begin(kGolden), std::end(kGolden),
                                   [](const Golden& row) { return row.dtype == GetParam().dtype; });
  ASSERT_NE(golden, std::end(kGolden)) << "a new type needs its hash here";
  const auto row = random_row(42, 0.1f, 0);
  const auto bytes = quantize(GetParam(), row);
  EXPECT_EQ(bytes, quantize(GetParam(), row));
  EXPECT_EQ(fnv1a(bytes), golden->hash) << std::hex << "0x" << fnv1a(bytes);
}

// Blocks know nothing of each other, so a row may be cut between them.
TEST_P(Quantize, BlocksAreIndependent) {
  const QuantType type = GetParam();
  const auto row = random_row(9, 1, 0);
  const auto whole = quantize(type, row);
  const size_t half_bytes = whole.size() / 2;
  std::vector<std::byte> second(half_bytes);
  type.quantize(row.data() + kRow / 2, second.data(), kRow / 2);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + static_cast<ptrdiff_t>(half_bytes)));
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Quantize, ::testing::ValuesIn(writable_types()),
                         [](const auto& row) { return std::string(dtype_name(row.param.dtype)); });

}  // namespace
}  // namespace butterfly::kernels
