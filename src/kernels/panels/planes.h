// Rows of a panel's sub-block (tiles/panel_layout.h), as plain code: what packers and unpackers of all
// integer types are made of.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simd/half.h"
#include "kernels/tiles/panel_layout.h"

namespace butterfly::kernels {

inline uint8_t* bytes_of(std::byte* p) { return reinterpret_cast<uint8_t*>(p); }
inline const uint8_t* bytes_of(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

inline float get_half(const uint8_t* at, size_t row) {
  uint16_t half;
  std::memcpy(&half, at + 2 * row, 2);
  return f16_to_f32(half);
}

// Four neighbouring columns at a time: a chunk holds them as four bytes.
inline uint32_t load_word(const void* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}
inline void store_word(uint8_t* to, uint32_t word) { std::memcpy(to, &word, 4); }

// 32 four-bit values, value k in byte k of `from` from bit `shift` on, into a row of a nibble plane.
inline void put_nibbles(uint8_t* plane, size_t row, const uint8_t* from, unsigned shift) {
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t low = load_word(from + 8 * i) >> shift & 0x0f0f0f0fu;
    const uint32_t high = load_word(from + 8 * i + 4) >> shift & 0x0f0f0f0fu;
    store_word(plane + i * panel::kChunkBytes + row * 4, low | high << 4);
  }
}

// The 32 values of `row` in a sub-block of whole bytes, of nibbles, of five bits.
inline void get_bytes(const uint8_t* sub, size_t row, uint8_t* to) {
  for (size_t c = 0; c < 8; ++c) store_word(to + 4 * c, load_word(sub + c * panel::kChunkBytes + row * 4));
}
inline void get_nibbles(const uint8_t* sub, size_t row, uint8_t* to) {
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t both = load_word(sub + i * panel::kChunkBytes + row * 4);
    store_word(to + 8 * i, both & 0x0f0f0f0fu);
    store_word(to + 8 * i + 4, both >> 4 & 0x0f0f0f0fu);
  }
}
inline void get_five_bits(const uint8_t* sub, size_t row, uint8_t* to) {
  get_nibbles(sub, row, to);
  const uint32_t fifth = load_word(sub + panel::kNibbleSub + row * 4);
  for (size_t c = 0; c < 8; ++c)
    store_word(to + 4 * c, load_word(to + 4 * c) | (fifth >> c & 0x01010101u) << 4);
}

// Blocks of a type in file order, row by row: fn(row, block index, block).
template <typename Block, typename F>
void each_block(const std::byte* rows, size_t row_bytes, size_t valid, F&& fn) {
  for (size_t row = 0; row < valid; ++row)
    for (size_t b = 0; b < row_bytes / sizeof(Block); ++b) {
      Block block;
      std::memcpy(&block, rows + row * row_bytes + b * sizeof(Block), sizeof(Block));
      fn(row, b, block);
    }
}

}  // namespace butterfly::kernels
