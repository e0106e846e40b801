#include "kernels/quant/nvfp4.h"

#include <array>
#include <cmath>

#include "kernels/quant/blocks.h"
#include "kernels/quant/mxfp4.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

using Points = std::array<std::array<uint16_t, 16>, 256>;  // under each scale, as f16

const Points& points() {
  static const Points kPoints = [] {
    Points all;
    for (size_t bits = 0; bits < all.size(); ++bits)
      for (size_t code = 0; code < 16; ++code)
        all[bits][code] =
            f32_to_f16(static_cast<float>(kMxfp4Points[code]) * nvfp4_scale(static_cast<uint8_t>(bits)));
    return all;
  }();
  return kPoints;
}

}  // namespace

float nvfp4_scale(uint8_t bits) {
  if (bits == 0x7f) return 0;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

void nvfp4_to_f16(const std::byte* from, uint16_t* to, size_t count) {
  constexpr size_t kGroup = 16;
  const Points& table = points();
  for (; count > 0; count -= kNvfp4Values, from += sizeof(BlockNVFP4)) {
    const auto block = load_block<BlockNVFP4>(from);
    for (size_t group = 0; group < std::size(block.d); ++group, to += kGroup) {
      const auto& scaled = table[block.d[group]];
      for (size_t i = 0; i < kGroup / 2; ++i) {
        const uint8_t both = block.qs[group * kGroup / 2 + i];
        to[i] = scaled[both & 15];
        to[i + kGroup / 2] = scaled[both >> 4];
      }
    }
  }
}

}  // namespace butterfly::kernels
