// What panels of types with 32-value blocks share: quants as bytes, nibbles or five bits, one scale (an f16,
// or the exponent of a power of two), and a minimum where the block has one. A type derives from Q32Layout
// and adds kType, and kOffset, which is taken off a stored quant to make a weight of it, or weight(), which
// makes one in another way.
#pragma once
#include "kernels/panels/pack_table.h"
#include "kernels/panels/planes.h"
#include "kernels/quant/mxfp4.h"

namespace butterfly::kernels {

// Layout and plain packer; both follow from the block of the file.
template <typename FileBlock>
struct Q32Layout {
  using Block = FileBlock;
  static constexpr bool kMin = requires(Block b) { b.m; };
  static constexpr bool kFifth = requires(Block b) { b.qh; };
  static constexpr bool kPower = requires(Block b) { b.e; };  // 2^(e - 128) for a scale
  static constexpr bool kBytes = sizeof(Block::qs) == 32;
  static constexpr size_t kSubBytes = kBytes   ? panel::kByteSub
                                      : kFifth ? panel::kFiveBitSub
                                               : panel::kNibbleSub;
  static constexpr size_t kScaleRows = kMin ? 2 : 1;
  static constexpr size_t kScaleBytes = kPower ? panel::kPowerRow : kScaleRows * panel::kScaleRow;

  static size_t panel_bytes(size_t cols) { return cols / 32 * (kSubBytes + kScaleBytes); }

  // See PackFormat::pack.
  static void pack(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* to) {
    uint8_t* quants = bytes_of(to);
    uint8_t* scales = quants + panel::q32_scales(cols, kSubBytes);
    if (valid < kPanelRows) std::memset(quants, 0, cols / 32 * (kSubBytes + kScaleBytes));
    each_block<Block>(rows, row_bytes, valid, [&](size_t row, size_t b, const Block& block) {
      put_quants(quants + b * kSubBytes, row, block);
      if constexpr (kPower)
        scales[b * kScaleBytes + row] = block.e;
      else
        std::memcpy(scales + b * kScaleBytes + 2 * row, &block.d, 2);
      if constexpr (kMin) std::memcpy(scales + b * kScaleBytes + panel::kScaleRow + 2 * row, &block.m, 2);
    });
  }

  // 32 of them.
  static void get_quants(const uint8_t* sub, size_t row, uint8_t* to) {
    if constexpr (kBytes)
      get_bytes(sub, row, to);
    else if constexpr (kFifth)
      get_five_bits(sub, row, to);
    else
      get_nibbles(sub, row, to);
  }

 private:
  static void put_quants(uint8_t* sub, size_t row, const Block& block) {
    if constexpr (kBytes) {
      for (size_t c = 0; c < 8; ++c)
        store_word(sub + c * panel::kChunkBytes + row * 4, load_word(block.qs + 4 * c));
    } else {
      put_halves(sub, row, block.qs);
    }
    if constexpr (kFifth) put_fifth_bits(sub, row, block.qh);
  }
  // Values 0 to 15 are the low halves of 16 bytes, 16 to 31 the high halves.
  static void put_halves(uint8_t* sub, size_t row, const uint8_t* qs) {
    uint8_t values[32];
    for (size_t k = 0; k < 16; k += 4) {
      store_word(values + k, load_word(qs + k) & 0x0f0f0f0fu);
      store_word(values + 16 + k, load_word(qs + k) >> 4 & 0x0f0f0f0fu);
    }
    put_nibbles(sub, row, values, 0);
  }
  // Bit i of a word belongs to value i.
  static void put_fifth_bits(uint8_t* sub, size_t row, const uint8_t* qh) {
    const uint32_t word = load_word(qh);
    uint32_t fifth = 0;
    for (size_t i = 0; i < 32; ++i) fifth |= (word >> i & 1u) << (i % 4 * 8 + i / 4);
    store_word(sub + panel::kNibbleSub + row * 4, fifth);
  }
};

// See PackFormat::unpack. A minimum is added, so it is one of -m.
template <class Type>
void unpack_q32(const std::byte* panel_data, size_t cols, size_t row, size_t block, IntBlock* to) {
  const uint8_t* quants = bytes_of(panel_data);
  uint8_t stored[32];
  Type::get_quants(quants + block * Type::kSubBytes, row, stored);
  if constexpr (requires(uint8_t quant) { Type::weight(quant); })
    for (size_t i = 0; i < 32; ++i) to->q[i] = static_cast<int8_t>(Type::weight(stored[i]));
  else
    store_less(stored, Type::kOffset, to->q);
  const uint8_t* scales = quants + panel::q32_scales(cols, Type::kSubBytes) + block * Type::kScaleBytes;
  if constexpr (Type::kPower)
    to->d = mxfp4_scale(scales[row]);
  else
    to->d = get_half(scales, row);
  to->scale[0] = 1;
  to->min[0] = Type::kMin ? 1 : 0;
  to->dmin = 0;
  if constexpr (Type::kMin) to->dmin = -get_half(scales + panel::kScaleRow, row);
}

template <class Type>
constexpr PackFormat q32_format(void (*pack_full)(const FullPanel&), void (*matmul)(const MatmulJob&),
                                TileMatmul tiles = {}) {
  return {.dtype = Type::kType,
          .panel_bytes = Type::panel_bytes,
          .pack = Type::pack,
          .pack_full = pack_full,
          .unpack = unpack_q32<Type>,
          .matmul = matmul,
          .tiles = tiles};
}

}  // namespace butterfly::kernels
