#include "kernels/panels/pack.h"

#include <cstring>

#include "base/check.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/quant/q4_0.h"
#include "kernels/quant/q4_1.h"
#include "kernels/quant/q4_k.h"
#include "kernels/quant/q5_0.h"
#include "kernels/quant/q5_1.h"
#include "kernels/quant/q5_k.h"
#include "kernels/quant/q6_k.h"
#include "kernels/quant/q8_0.h"
#include "kernels/quant/six_bit_scales.h"
#include "kernels/simd/half.h"
#include "kernels/tiles/panel_layout.h"

namespace butterfly::kernels {
namespace {

uint8_t* bytes(std::byte* p) { return reinterpret_cast<uint8_t*>(p); }
const uint8_t* bytes(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

// Byte of column `column` (0 to 31) of `row` inside a sub-block of whole bytes.
size_t byte_at(size_t row, size_t column) { return column / 4 * panel::kChunkBytes + row * 4 + column % 4; }

// The same inside a 4-bit plane: byte, and whether the value is in its high half.
struct NibblePlace {
  size_t byte;
  bool high;
};
NibblePlace nibble_at(size_t row, size_t column) {
  const size_t chunk = column / 4;
  return {chunk / 2 * panel::kChunkBytes + row * 4 + column % 4, chunk % 2 == 1};
}
uint8_t get_nibble(const uint8_t* plane, size_t row, size_t column) {
  const auto [at, high] = nibble_at(row, column);
  return high ? plane[at] >> 4 : plane[at] & 15;
}

int get_five_bits(const uint8_t* sub, size_t row, size_t column) {
  const int fifth = sub[panel::kNibbleSub + row * 4 + column % 4] >> (column / 4) & 1;
  return get_nibble(sub, row, column) | fifth << 4;
}

float get_half(const uint8_t* at, size_t row) {
  uint16_t half;
  std::memcpy(&half, at + 2 * row, 2);
  return f16_to_f32(half);
}

// Blocks of a packed type in file order, row by row: fn(row, block index, block).
template <typename Block, typename F>
void each_block(const std::byte* rows, size_t row_bytes, size_t valid, F&& fn) {
  for (size_t row = 0; row < valid; ++row)
    for (size_t b = 0; b < row_bytes / sizeof(Block); ++b) {
      Block block;
      std::memcpy(&block, rows + row * row_bytes + b * sizeof(Block), sizeof(Block));
      fn(row, b, block);
    }
}

// Four neighbouring columns at a time: a chunk holds them as four bytes.
uint32_t load_word(const void* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}
void store_word(uint8_t* to, uint32_t word) { std::memcpy(to, &word, 4); }

// 32 four-bit values, value k in byte k of `from` from bit `shift` on, into a row of a nibble plane.
void put_nibbles(uint8_t* plane, size_t row, const uint8_t* from, unsigned shift) {
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t low = load_word(from + 8 * i) >> shift & 0x0f0f0f0fu;
    const uint32_t high = load_word(from + 8 * i + 4) >> shift & 0x0f0f0f0fu;
    store_word(plane + i * panel::kChunkBytes + row * 4, low | high << 4);
  }
}

template <typename Value>
void pack_values(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  auto* to = reinterpret_cast<Value*>(panel_data);
  for (size_t row = 0; row < kPanelRows; ++row) {
    for (size_t k = 0; k < cols; ++k) {
      Value value{};  // rows in a file have no alignment
      if (row < valid) std::memcpy(&value, rows + row * row_bytes + k * sizeof(Value), sizeof(Value));
      to[k * kPanelRows + row] = value;
    }
  }
}

constexpr size_t k_sub_bytes(DType dtype) { return dtype == DType::kQ5_K ? panel::kQ5KSub : panel::kQ4KSub; }

// Scales, minimums and d of one row of Q4_K or Q5_K.
template <typename Block>
void put_k_scales(uint8_t* scale, size_t row, const Block& block) {
  int16_t sc[8], mn[8];
  unpack_six_bit_scales(block.scales, sc, mn);
  for (size_t s = 0; s < 8; ++s) {
    scale[s * kPanelRows + row] = static_cast<uint8_t>(sc[s]);
    scale[panel::kKMinsOffset + (s / 2 * kPanelRows + row) * 2 + s % 2] = static_cast<uint8_t>(mn[s]);
  }
  std::memcpy(scale + panel::kKDOffset + 2 * row, &block.d, 2);
  std::memcpy(scale + panel::kKDOffset + panel::kScaleRow + 2 * row, &block.dmin, 2);
}

}  // namespace

void pack_f32(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_values<float>(rows, row_bytes, valid, cols, panel_data);
}

void pack_half(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_values<uint16_t>(rows, row_bytes, valid, cols, panel_data);
}

namespace {

// Types with 32-value blocks: quants(to the row's sub-block, block), then the row's scales.
template <typename Block, typename Quants>
void pack_q32(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data,
              size_t sub_bytes, Quants&& put_quants) {
  constexpr bool kMin = requires(Block b) { b.m; };
  constexpr size_t kScaleBytes = (kMin ? 2 : 1) * panel::kScaleRow;
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + panel::q32_scales(cols, sub_bytes);
  if (valid < kPanelRows) std::memset(quants, 0, cols / 32 * (sub_bytes + kScaleBytes));
  each_block<Block>(rows, row_bytes, valid, [&](size_t row, size_t b, const Block& block) {
    put_quants(quants + b * sub_bytes, row, block);
    std::memcpy(scales + b * kScaleBytes + 2 * row, &block.d, 2);
    if constexpr (kMin) std::memcpy(scales + b * kScaleBytes + panel::kScaleRow + 2 * row, &block.m, 2);
  });
}

// Values 0 to 15 are the low halves of 16 bytes, 16 to 31 the high halves.
void put_halves(uint8_t* sub, size_t row, const uint8_t* qs) {
  uint8_t values[32];
  for (size_t k = 0; k < 16; k += 4) {
    store_word(values + k, load_word(qs + k) & 0x0f0f0f0fu);
    store_word(values + 16 + k, load_word(qs + k) >> 4 & 0x0f0f0f0fu);
  }
  put_nibbles(sub, row, values, 0);
}
// Bit i of a word belongs to value i.
void put_fifth_bits(uint8_t* sub, size_t row, const uint8_t* qh) {
  const uint32_t word = load_word(qh);
  uint32_t fifth = 0;
  for (size_t i = 0; i < 32; ++i) fifth |= (word >> i & 1u) << (i % 4 * 8 + i / 4);
  store_word(sub + panel::kNibbleSub + row * 4, fifth);
}

}  // namespace

void pack_q8_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockQ8_0>(rows, row_bytes, valid, cols, panel_data, panel::kByteSub,
                      [](uint8_t* sub, size_t row, const BlockQ8_0& block) {
                        for (size_t c = 0; c < 8; ++c)
                          store_word(sub + c * panel::kChunkBytes + row * 4, load_word(block.qs + 4 * c));
                      });
}

void pack_q4_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockQ4_0>(
      rows, row_bytes, valid, cols, panel_data, panel::kNibbleSub,
      [](uint8_t* sub, size_t row, const BlockQ4_0& block) { put_halves(sub, row, block.qs); });
}

void pack_q4_1(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockQ4_1>(
      rows, row_bytes, valid, cols, panel_data, panel::kNibbleSub,
      [](uint8_t* sub, size_t row, const BlockQ4_1& block) { put_halves(sub, row, block.qs); });
}

void pack_iq4_nl(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockIQ4_NL>(
      rows, row_bytes, valid, cols, panel_data, panel::kNibbleSub,
      [](uint8_t* sub, size_t row, const BlockIQ4_NL& block) { put_halves(sub, row, block.qs); });
}

void pack_q5_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockQ5_0>(rows, row_bytes, valid, cols, panel_data, panel::kFiveBitSub,
                      [](uint8_t* sub, size_t row, const BlockQ5_0& block) {
                        put_halves(sub, row, block.qs);
                        put_fifth_bits(sub, row, block.qh);
                      });
}

void pack_q5_1(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_q32<BlockQ5_1>(rows, row_bytes, valid, cols, panel_data, panel::kFiveBitSub,
                      [](uint8_t* sub, size_t row, const BlockQ5_1& block) {
                        put_halves(sub, row, block.qs);
                        put_fifth_bits(sub, row, block.qh);
                      });
}

void pack_q4_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + cols / 32 * panel::kQ4KSub;
  if (valid < kPanelRows) std::memset(quants, 0, cols / 256 * (8 * panel::kQ4KSub + panel::kKScales));
  each_block<BlockQ4_K>(rows, row_bytes, valid, [&](size_t row, size_t b, const BlockQ4_K& block) {
    for (size_t s = 0; s < 8; ++s)
      put_nibbles(quants + (b * 8 + s) * panel::kQ4KSub, row, block.qs + s / 2 * 32, s % 2 * 4);
    put_k_scales(scales + b * panel::kKScales, row, block);
  });
}

void pack_q5_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + cols / 32 * panel::kQ5KSub;
  if (valid < kPanelRows) std::memset(quants, 0, cols / 256 * (8 * panel::kQ5KSub + panel::kKScales));
  each_block<BlockQ5_K>(rows, row_bytes, valid, [&](size_t row, size_t b, const BlockQ5_K& block) {
    for (size_t s = 0; s < 8; ++s) {
      uint8_t* sub = quants + (b * 8 + s) * panel::kQ5KSub;
      put_nibbles(sub, row, block.qs + s / 2 * 32, s % 2 * 4);
      uint32_t fifth = 0;
      for (size_t c = 0; c < 8; ++c) fifth |= (load_word(block.qh + 4 * c) >> s & 0x01010101u) << c;
      store_word(sub + panel::kNibbleSub + row * 4, fifth);
    }
    put_k_scales(scales + b * panel::kKScales, row, block);
  });
}

void pack_q6_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + cols / 32 * panel::kQ6KSub;
  if (valid < kPanelRows) std::memset(quants, 0, cols / 256 * (8 * panel::kQ6KSub + panel::kQ6KScales));
  each_block<BlockQ6_K>(rows, row_bytes, valid, [&](size_t row, size_t b, const BlockQ6_K& block) {
    for (size_t s = 0; s < 8; ++s) {
      uint8_t* sub = quants + (b * 8 + s) * panel::kQ6KSub;
      const size_t half = s / 4, quarter = s % 4;  // 128 values, and 32 of them
      put_nibbles(sub, row, block.ql + half * 64 + quarter % 2 * 32, quarter / 2 * 4);
      for (size_t plane = 0; plane < 2; ++plane) {
        uint32_t upper = 0;
        for (size_t i = 0; i < 4; ++i)
          upper |= (load_word(block.qh + half * 32 + plane * 16 + 4 * i) >> (2 * quarter) & 0x03030303u)
                   << (2 * i);
        store_word(sub + panel::kNibbleSub + plane * panel::kChunkBytes + row * 4, upper);
      }
    }
    uint8_t* scale = scales + b * panel::kQ6KScales;
    for (size_t g = 0; g < 16; ++g)
      scale[(g / 2 * kPanelRows + row) * 2 + g % 2] = static_cast<uint8_t>(block.scales[g]);
    std::memcpy(scale + panel::kQ6KDOffset + 2 * row, &block.d, 2);
  });
}

namespace {

// value(sub-block, row, column) gives a quant; a second row of scales holds minimums that are added.
template <typename Value>
void unpack_q32(const uint8_t* quants, size_t cols, size_t row, size_t b, size_t sub_bytes, size_t scale_rows,
                IntBlock* to, Value&& value) {
  for (size_t i = 0; i < 32; ++i) to->q[i] = static_cast<int8_t>(value(quants + b * sub_bytes, row, i));
  const uint8_t* scales = quants + panel::q32_scales(cols, sub_bytes) + b * scale_rows * panel::kScaleRow;
  to->d = get_half(scales, row);
  to->scale[0] = 1;
  to->min[0] = scale_rows == 2 ? 1 : 0;
  if (scale_rows == 2) to->dmin = -get_half(scales + panel::kScaleRow, row);
}

}  // namespace

void unpack_panel_block(DType dtype, const std::byte* panel_data, size_t cols, size_t row, size_t b,
                        IntBlock* to) {
  const uint8_t* quants = bytes(panel_data);
  to->dmin = 0;
  switch (dtype) {
    case DType::kQ8_0:
      unpack_q32(quants, cols, row, b, panel::kByteSub, 1, to, [](const uint8_t* sub, size_t r, size_t i) {
        return static_cast<int8_t>(sub[byte_at(r, i)]);
      });
      return;
    case DType::kQ4_0:
      unpack_q32(quants, cols, row, b, panel::kNibbleSub, 1, to,
                 [](const uint8_t* sub, size_t r, size_t i) { return get_nibble(sub, r, i) - 8; });
      return;
    case DType::kQ4_1:
      unpack_q32(quants, cols, row, b, panel::kNibbleSub, 2, to,
                 [](const uint8_t* sub, size_t r, size_t i) { return get_nibble(sub, r, i); });
      return;
    case DType::kIQ4_NL:
      unpack_q32(quants, cols, row, b, panel::kNibbleSub, 1, to,
                 [](const uint8_t* sub, size_t r, size_t i) { return kIq4Points[get_nibble(sub, r, i)]; });
      return;
    case DType::kQ5_0:
      unpack_q32(quants, cols, row, b, panel::kFiveBitSub, 1, to,
                 [](const uint8_t* sub, size_t r, size_t i) { return get_five_bits(sub, r, i) - 16; });
      return;
    case DType::kQ5_1:
      unpack_q32(quants, cols, row, b, panel::kFiveBitSub, 2, to,
                 [](const uint8_t* sub, size_t r, size_t i) { return get_five_bits(sub, r, i); });
      return;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const size_t sub_bytes = k_sub_bytes(dtype);
      const uint8_t* scale = quants + cols / 32 * sub_bytes + b * panel::kKScales;
      for (size_t i = 0; i < 256; ++i) {
        const uint8_t* sub = quants + (b * 8 + i / 32) * sub_bytes;
        to->q[i] = static_cast<int8_t>(dtype == DType::kQ5_K ? get_five_bits(sub, row, i % 32)
                                                             : get_nibble(sub, row, i % 32));
      }
      for (size_t s = 0; s < 8; ++s) {
        to->scale[s] = scale[s * kPanelRows + row];
        to->min[s] = scale[panel::kKMinsOffset + (s / 2 * kPanelRows + row) * 2 + s % 2];
      }
      to->d = get_half(scale + panel::kKDOffset, row);
      to->dmin = get_half(scale + panel::kKDOffset + panel::kScaleRow, row);
      return;
    }
    case DType::kQ6_K: {
      const uint8_t* scale = quants + cols / 32 * panel::kQ6KSub + b * panel::kQ6KScales;
      for (size_t i = 0; i < 256; ++i) {
        const uint8_t* sub = quants + (b * 8 + i / 32) * panel::kQ6KSub;
        const size_t chunk = i % 32 / 4;
        const uint8_t bits = sub[panel::kNibbleSub + chunk / 4 * panel::kChunkBytes + row * 4 + i % 4];
        const int q = get_nibble(sub, row, i % 32) | (bits >> (chunk % 4 * 2) & 3) << 4;
        to->q[i] = static_cast<int8_t>(q - 32);
      }
      for (size_t g = 0; g < 16; ++g) {
        to->scale[g] = static_cast<int8_t>(scale[(g / 2 * kPanelRows + row) * 2 + g % 2]);
        to->min[g] = 0;
      }
      to->d = get_half(scale + panel::kQ6KDOffset, row);
      return;
    }
    default:
      BF_CHECK(false) << "no panels of type " << dtype_name(dtype);
  }
}

}  // namespace butterfly::kernels
