// The shared SIMD pieces against scalar truth, on every target of this machine.
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/simd/half.h"
#include "kernels/simd/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/simd_test.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

void fma_all(const float* a, const float* b, const float* c, float* out, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < count; ++i) out[i] = std::fma(a[i], b[i], c[i]);
#else
  const DF d;
  for (size_t i = 0; i < count; i += kVF)
    hn::StoreU(Fma(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, out + i);
#endif
}

void widen_f16(const uint16_t* from, float* to, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < count; ++i) to[i] = f16_to_f32(from[i]);
#else
  for (size_t i = 0; i < count; i += kVF) hn::StoreU(LoadF16(from + i), DF(), to + i);
#endif
}

void narrow_f16(const float* from, uint16_t* to, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < count; ++i) to[i] = f32_to_f16(from[i]);
#else
  for (size_t i = 0; i < count; i += kVF) StoreF16(hn::LoadU(DF(), from + i), to + i);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

namespace butterfly::kernels {
HWY_EXPORT(fma_all);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_f16);

namespace {

uint32_t bits_of(float f) { return std::bit_cast<uint32_t>(f); }

// Floats with random exponents in a window, so that sums cancel, absorb and underflow.
float odd_float(uint64_t index, uint32_t window) {
  const uint64_t r = random_u64(7, 1, index);
  const auto exponent = static_cast<uint32_t>(127 - window / 2 + (r >> 40) % window);
  return std::bit_cast<float>(static_cast<uint32_t>(r & 0x807fffffu) | (exponent << 23));
}

TEST(Simd, EveryTargetIsNamedAndCanBeForced) {
  const auto names = available_targets();
  ASSERT_FALSE(names.empty());
  for_each_target([&](const std::string& name) { EXPECT_EQ(target_name(), name); });
  EXPECT_THROW(force_target("no-such-target"), std::runtime_error);
}

TEST(Simd, FmaHasOneRounding) {
  const size_t count = 1 << 16;
  for (uint32_t window : {4u, 30u, 200u}) {
    std::vector<float> a(count), b(count), c(count), out(count);
    for (size_t i = 0; i < count; ++i) {
      a[i] = odd_float(3 * i, window);
      b[i] = odd_float(3 * i + 1, window);
      // A third of the cases cancel almost completely, another third sits on a rounding boundary.
      c[i] = i % 3 == 0 ? -a[i] * b[i] : odd_float(3 * i + 2, window);
      if (i % 3 == 1) c[i] = std::ldexp(a[i] * b[i], 24 - static_cast<int>(i % 5));
    }
    for_each_target([&](const std::string& name) {
      HWY_DYNAMIC_DISPATCH(fma_all)(a.data(), b.data(), c.data(), out.data(), count);
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(bits_of(out[i]), bits_of(std::fma(a[i], b[i], c[i])))
            << name << " fma(" << a[i] << ", " << b[i] << ", " << c[i] << ")";
    });
  }
}

TEST(Simd, F16WidensExactly) {
  std::vector<uint16_t> from(65536);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  std::vector<float> to(from.size());
  for_each_target([&](const std::string& name) {
    HWY_DYNAMIC_DISPATCH(widen_f16)(from.data(), to.data(), from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const float want = f16_to_f32(from[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(to[i])) << name << " " << i;
      } else {
        ASSERT_EQ(bits_of(to[i]), bits_of(want)) << name << " " << i;
      }
    }
  });
}

TEST(Simd, F16NarrowsToNearestEven) {
  // Every half, and the points halfway to the next one, and their neighbours.
  std::vector<float> from;
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float x = f16_to_f32(static_cast<uint16_t>(i));
    const float y = i + 1 < 0x7c00 ? f16_to_f32(static_cast<uint16_t>(i + 1)) : 65536.0f;
    const float middle = x + (y - x) / 2;
    for (float f : {x, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      from.push_back(f);
      from.push_back(-f);
    }
  }
  while (from.size() % 16 != 0) from.push_back(0);
  std::vector<uint16_t> to(from.size());
  for_each_target([&](const std::string& name) {
    HWY_DYNAMIC_DISPATCH(narrow_f16)(from.data(), to.data(), from.size());
    for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(to[i], f32_to_f16(from[i])) << name << " " << from[i];
  });
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(2049.0f), 0x6800);  // halfway between 2048 and 2050: to even
  EXPECT_EQ(f32_to_f16(2051.0f), 0x6802);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);
  EXPECT_EQ(f32_to_f16(0x1.8p-24f), 0x0002);
}

}  // namespace
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
