// The 32 five-bit integers of Q5_0 and Q5_1: low halves in 16 bytes, top bits in a 32-bit word. kBias is
// added to be unsigned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace butterfly::kernels {

template <int kBias>
void unpack_five_bits(const uint8_t (&qh)[4], const uint8_t (&qs)[16], int8_t* q) {
  uint32_t top;
  std::memcpy(&top, qh, sizeof top);
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t low_half = (qs[i] & 15u) | (top >> i & 1u) << 4;
    const uint32_t high_half = (qs[i] >> 4) | (top >> (i + 16) & 1u) << 4;
    q[i] = static_cast<int8_t>(static_cast<int>(low_half) - kBias);
    q[i + 16] = static_cast<int8_t>(static_cast<int>(high_half) - kBias);
  }
}

template <int kBias>
void pack_five_bits(const int8_t* q, uint8_t (&qh)[4], uint8_t (&qs)[16]) {
  uint32_t top = 0;
  for (size_t i = 0; i < 16; ++i) {
    const auto low_half = static_cast<uint32_t>(q[i] + kBias);
    const auto high_half = static_cast<uint32_t>(q[i + 16] + kBias);
    qs[i] = static_cast<uint8_t>((low_half & 15) | (high_half & 15) << 4);
    top |= (low_half >> 4) << i | (high_half >> 4) << (i + 16);
  }
  std::memcpy(qh, &top, sizeof top);
}

}  // namespace butterfly::kernels
