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

// Four words of a row that are a chunk apart, side by side in a register: stored one by one, a vector load of
// all four would have to wait until they are in the cache.
using RowWords = uint32_t __attribute__((vector_size(16)));
inline RowWords load_chunks(const uint8_t* sub, size_t row) {
  const uint8_t* at = sub + row * 4;
  return RowWords{load_word(at), load_word(at + panel::kChunkBytes), load_word(at + 2 * panel::kChunkBytes),
                  load_word(at + 3 * panel::kChunkBytes)};
}
inline void store_words(uint8_t* to, RowWords words) { std::memcpy(to, &words, sizeof(words)); }

// 32 bytes, each less `offset`.
inline void store_less(const uint8_t* from, uint8_t offset, int8_t* to) {
  using Bytes = uint8_t __attribute__((vector_size(32)));
  Bytes values;
  std::memcpy(&values, from, sizeof(values));
  values -= offset;
  std::memcpy(to, &values, sizeof(values));
}

// The 32 values of `row` in a sub-block of whole bytes, of nibbles, of five bits.
inline void get_bytes(const uint8_t* sub, size_t row, uint8_t* to) {
  store_words(to, load_chunks(sub, row));
  store_words(to + 16, load_chunks(sub + 4 * panel::kChunkBytes, row));
}
struct RowHalves {
  RowWords first, second;  // columns 0 to 15, 16 to 31
};
inline RowHalves nibbles_of(const uint8_t* sub, size_t row) {
  const RowWords both = load_chunks(sub, row);
  const RowWords low = both & 0x0f0f0f0fu, high = both >> 4 & 0x0f0f0f0fu;
  return {__builtin_shufflevector(low, high, 0, 4, 1, 5), __builtin_shufflevector(low, high, 2, 6, 3, 7)};
}
inline void get_nibbles(const uint8_t* sub, size_t row, uint8_t* to) {
  const RowHalves nibbles = nibbles_of(sub, row);
  store_words(to, nibbles.first);
  store_words(to + 16, nibbles.second);
}
inline void get_five_bits(const uint8_t* sub, size_t row, uint8_t* to) {
  const RowHalves nibbles = nibbles_of(sub, row);
  const uint32_t fifth = load_word(sub + panel::kNibbleSub + row * 4);
  const RowWords bits = RowWords{fifth, fifth >> 1, fifth >> 2, fifth >> 3};
  store_words(to, nibbles.first | (bits & 0x01010101u) << 4);
  store_words(to + 16, nibbles.second | (bits >> 4 & 0x01010101u) << 4);
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
