// IQ4_NL: 32 four-bit indices into a fixed table of unequal steps, one f16 scale. 4.5 bits per value. Read
// only.
#pragma once
#include <array>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// The table's points, denser around zero; part of the format, also of IQ4_XS.
inline constexpr std::array<int8_t, 16> kIq4Points = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// As it stands in a file, without padding.
struct BlockIQ4_NL {
  uint16_t d;      // f16
  uint8_t qs[16];  // index of value i in the low half of byte i, of value i + 16 in the high half
};
static_assert(sizeof(BlockIQ4_NL) == 18);

void iq4_nl_dequantize(const std::byte* from, float* to, size_t count);
void iq4_nl_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
