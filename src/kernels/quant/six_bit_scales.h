// The eight scales and eight minima of Q4_K and Q5_K, six bits each in 12 bytes.
//
// Bytes 0-3: scales 0-3, bytes 4-7: minima 0-3, in their low six bits. Bytes 8-11: low four bits of scale 4-7
// (low half) and of minimum 4-7 (high half), whose upper two bits are the upper two bits of bytes 0-3 and
// 4-7.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

inline void unpack_six_bit_scales(const uint8_t (&bytes)[12], int16_t* scale, int16_t* min) {
  for (size_t g = 0; g < 4; ++g) {
    scale[g] = bytes[g] & 63;
    min[g] = bytes[g + 4] & 63;
    scale[g + 4] = static_cast<int16_t>((bytes[g + 8] & 15) | (bytes[g] >> 6) << 4);
    min[g + 4] = static_cast<int16_t>((bytes[g + 8] >> 4) | (bytes[g + 4] >> 6) << 4);
  }
}

inline void pack_six_bit_scales(const int16_t* scale, const int16_t* min, uint8_t (&bytes)[12]) {
  for (size_t g = 0; g < 4; ++g) {
    bytes[g] = static_cast<uint8_t>(scale[g] | (scale[g + 4] >> 4) << 6);
    bytes[g + 4] = static_cast<uint8_t>(min[g] | (min[g + 4] >> 4) << 6);
    bytes[g + 8] = static_cast<uint8_t>((scale[g + 4] & 15) | (min[g + 4] & 15) << 4);
  }
}

}  // namespace butterfly::kernels
