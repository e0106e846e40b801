// What panels of types with 256-value blocks share. Q4_K and Q5_K have the same scales and minimums
// (tiles/panel_layout.h) and derive from KMinLayout.
#pragma once
#include "kernels/panels/pack_table.h"
#include "kernels/panels/planes.h"
#include "kernels/quant/six_bit_scales.h"

namespace butterfly::kernels {

// Calls fn(sub-blocks of this block, its scales, row, block) for each block of the rows of a panel, whose
// quants come first; missing rows become zeros.
template <typename Block, typename F>
void pack_k_blocks(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* to,
                   size_t sub_bytes, size_t scale_bytes, F&& fn) {
  uint8_t* quants = bytes_of(to);
  uint8_t* scales = quants + cols / 32 * sub_bytes;
  if (valid < kPanelRows) std::memset(quants, 0, cols / 256 * (8 * sub_bytes + scale_bytes));
  each_block<Block>(rows, row_bytes, valid, [&](size_t row, size_t b, const Block& block) {
    fn(quants + b * 8 * sub_bytes, scales + b * scale_bytes, row, block);
  });
}

// Layout, plain packer and unpacker of Q4_K and Q5_K, which differ in the block of the file.
template <typename FileBlock>
struct KMinLayout {
  using Block = FileBlock;
  static constexpr bool kFifth = requires(Block b) { b.qh; };
  static constexpr size_t kSubBytes = kFifth ? panel::kFiveBitSub : panel::kNibbleSub;
  static constexpr size_t kScaleBytes = panel::kKScales;

  static size_t panel_bytes(size_t cols) { return cols / 256 * (8 * kSubBytes + kScaleBytes); }

  // See PackFormat::pack.
  static void pack(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* to) {
    pack_k_blocks<Block>(rows, row_bytes, valid, cols, to, kSubBytes, kScaleBytes,
                         [](uint8_t* subs, uint8_t* scale, size_t row, const Block& block) {
                           for (size_t s = 0; s < 8; ++s) put_quants(subs + s * kSubBytes, row, block, s);
                           put_scales(scale, row, block);
                         });
  }

  // See PackFormat::unpack.
  static void unpack(const std::byte* panel_data, size_t cols, size_t row, size_t block, IntBlock* to) {
    const uint8_t* quants = bytes_of(panel_data);
    const uint8_t* scale = quants + cols / 32 * kSubBytes + block * kScaleBytes;
    for (size_t s = 0; s < 8; ++s) {
      const uint8_t* sub = quants + (block * 8 + s) * kSubBytes;
      auto* values = reinterpret_cast<uint8_t*>(to->q) + 32 * s;
      if constexpr (kFifth)
        get_five_bits(sub, row, values);
      else
        get_nibbles(sub, row, values);
      to->scale[s] = scale[s * kPanelRows + row];
      to->min[s] = scale[panel::kKMinsOffset + (s / 2 * kPanelRows + row) * 2 + s % 2];
    }
    to->d = get_half(scale + panel::kKDOffset, row);
    to->dmin = get_half(scale + panel::kKDOffset + panel::kScaleRow, row);
  }

 private:
  // Sub-block s of one row.
  static void put_quants(uint8_t* sub, size_t row, const Block& block, size_t s) {
    put_nibbles(sub, row, block.qs + s / 2 * 32, static_cast<unsigned>(s % 2 * 4));
    if constexpr (kFifth) {
      uint32_t fifth = 0;
      for (size_t c = 0; c < 8; ++c) fifth |= (load_word(block.qh + 4 * c) >> s & 0x01010101u) << c;
      store_word(sub + panel::kNibbleSub + row * 4, fifth);
    }
  }
  // Scales, minimums and d of one row.
  static void put_scales(uint8_t* scale, size_t row, const Block& block) {
    int16_t sc[8], mn[8];
    unpack_six_bit_scales(block.scales, sc, mn);
    for (size_t s = 0; s < 8; ++s) {
      scale[s * kPanelRows + row] = static_cast<uint8_t>(sc[s]);
      scale[panel::kKMinsOffset + (s / 2 * kPanelRows + row) * 2 + s % 2] = static_cast<uint8_t>(mn[s]);
    }
    std::memcpy(scale + panel::kKDOffset + 2 * row, &block.d, 2);
    std::memcpy(scale + panel::kKDOffset + panel::kScaleRow + 2 * row, &block.dmin, 2);
  }
};

template <class Type>
constexpr PackFormat k_format(DType dtype, void (*pack_full)(const FullPanel&),
                              void (*matmul)(const MatmulJob&), TileMatmul tiles) {
  return {.dtype = dtype,
          .panel_bytes = Type::panel_bytes,
          .pack = Type::pack,
          .pack_full = pack_full,
          .unpack = Type::unpack,
          .matmul = matmul,
          .tiles = tiles};
}

}  // namespace butterfly::kernels
