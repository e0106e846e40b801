// NVFP4: floats of four bits (sign, two bits of exponent, one of mantissa) under one float of eight bits per
// 16. 4.5 bits per value. Read only.
//
// The scales of a block lie up to 17 octaves apart, so a block has no form of small integers (IntBlock) as
// the types of the table have. But every value has at most six significant bits and is an f16: tensors are
// widened to that as they are read, exactly.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

inline constexpr size_t kNvfp4Values = 64;

// As it stands in a file, without padding.
struct BlockNVFP4 {
  uint8_t d[4];    // of 16 values each: see nvfp4_scale()
  uint8_t qs[32];  // MXFP4's points: of each 16 values, i in the low half of byte i, i + 8 in the high half
};
static_assert(sizeof(BlockNVFP4) == 36);

// Half of the float that four bits of exponent and three of mantissa are, since points are doubled. 0x7f is 0
// in GGUF, and not NaN; the eighth bit is not read.
float nvfp4_scale(uint8_t bits);

void nvfp4_to_f16(const std::byte* from, uint16_t* to, size_t count);

}  // namespace butterfly::kernels
