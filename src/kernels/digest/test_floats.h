// For tests of this folder: comparing bits, and floats worth trying.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace butterfly::kernels {

// The same bits, or both NaN: IEEE 754 leaves the payload of a NaN to the machine.
inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Index of the first difference, or `count`.
inline size_t first_difference(const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!same_bits(a[i], b[i])) return i;
  return count;
}

// Every stride-th float by bits: all exponents, both signs, subnormals, infinities and NaNs.
inline std::vector<float> float_sweep(uint32_t stride) {
  std::vector<float> out;
  for (uint64_t bits = 0; bits <= 0xffffffffULL; bits += stride)
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const float inf = std::numeric_limits<float>::infinity();
  for (float f :
       {0.0f, 1.0f, 0x1p-149f, 0x1p-126f, 0x1.fffffep127f, inf, std::numeric_limits<float>::quiet_NaN()}) {
    out.push_back(f);
    out.push_back(-f);
  }
  while (out.size() % 16 != 0) out.push_back(0);
  return out;
}

// Ordinary values: about normal, with a spread of magnitudes.
inline std::vector<float> random_floats(size_t count, uint64_t stream, float scale = 1.0f) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = scale * random_normal(11, stream, i);
  return out;
}

// Error of `got` in units of the last place of the float nearest to `want`.
inline double ulp_error(float got, long double want) {
  if (want == 0) return got == 0 ? 0 : std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(static_cast<double>(std::fabs(want)), &exponent);
  if (exponent < -125) exponent = -125;
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 24));
}

}  // namespace butterfly::kernels
