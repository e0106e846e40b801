// MXFP4: 32 floats of four bits (sign, two bits of exponent, one of mantissa) under one power of two. 4.25
// bits per value. The experts of gpt-oss.
#pragma once
#include <array>
#include <bit>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// Twice the floats that four bits can say, which are integers; minus zero is zero.
inline constexpr std::array<int8_t, 16> kMxfp4Points = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

// As it stands in a file, without padding.
struct BlockMXFP4 {
  uint8_t e;       // what the points are multiplied by: 2^(e - 128)
  uint8_t qs[16];  // point of value i in the low half of byte i, of value i + 16 in the high half
};
static_assert(sizeof(BlockMXFP4) == 17);

// 2^(e - 128), exactly: 0 and 1 give subnormal floats. 255, which elsewhere stands for NaN, is 2^127 in GGUF.
inline float mxfp4_scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e : (uint32_t{e} - 1) << 23);
}

void mxfp4_dequantize(const std::byte* from, float* to, size_t count);
void mxfp4_quantize(const float* from, std::byte* to, size_t count);
void mxfp4_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
