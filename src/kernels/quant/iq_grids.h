// Tables of points that the IQ types index: eight or four values that are stored together, and their signs.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

using GridOf8 = std::array<int8_t, 8>;
using GridOf4 = std::array<int8_t, 4>;
extern const std::array<GridOf8, 256> kIq2XxsGrid;
extern const std::array<GridOf8, 512> kIq2XsGrid;
extern const std::array<GridOf8, 1024> kIq2SGrid;
extern const std::array<GridOf4, 256> kIq3XxsGrid;
extern const std::array<GridOf4, 512> kIq3SGrid;
extern const std::array<GridOf8, 2048> kIq1Grid;  // IQ1_S and IQ1_M

// Eight signs from seven bits: the eighth makes the number of minus signs even.
inline uint8_t even_signs(uint32_t seven_bits) {
  const uint32_t bits = seven_bits & 127;
  return static_cast<uint8_t>(bits | static_cast<uint32_t>(std::popcount(bits) & 1) << 7);
}

// Values of a point; value i is negative where bit i of `signs` is set.
template <size_t kCount>
void put_signed(const std::array<int8_t, kCount>& point, unsigned signs, int8_t* to) {
  for (size_t i = 0; i < kCount; ++i)
    to[i] = static_cast<int8_t>((signs >> i & 1) != 0 ? -point[i] : point[i]);
}

// Eight times the values of a point of IQ1, moved by `delta` eighths.
inline void put_eighths(const GridOf8& point, int delta, int8_t* to) {
  for (size_t i = 0; i < point.size(); ++i) to[i] = static_cast<int8_t>(8 * point[i] + delta);
}

}  // namespace butterfly::kernels
