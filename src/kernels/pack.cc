#include "kernels/pack.h"

#include <cstring>

#include "base/check.h"
#include "kernels/half.h"
#include "kernels/panel_layout.h"

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
void put_nibble(uint8_t* plane, size_t row, size_t column, uint8_t value) {
  const auto [at, high] = nibble_at(row, column);
  plane[at] = static_cast<uint8_t>(plane[at] | (value & 15) << (high ? 4 : 0));
}
uint8_t get_nibble(const uint8_t* plane, size_t row, size_t column) {
  const auto [at, high] = nibble_at(row, column);
  return high ? plane[at] >> 4 : plane[at] & 15;
}

void put_half(uint8_t* at, size_t row, float value) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(at + 2 * row, &half, 2);
}
float get_half(const uint8_t* at, size_t row) {
  uint16_t half;
  std::memcpy(&half, at + 2 * row, 2);
  return f16_to_f32(half);
}

// Calls fn(row, block, IntBlock) for every block of the valid rows.
template <typename F>
void each_block(DType dtype, const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, F&& fn) {
  const DTypeInfo& info = dtype_info(dtype);
  const QuantType& type = quant_type(dtype);
  IntBlock block;
  for (size_t row = 0; row < valid; ++row)
    for (size_t b = 0; b < cols / info.block_values; ++b) {
      type.unpack(rows + row * row_bytes + b * info.block_bytes, &block);
      fn(row, b, block);
    }
}

template <typename Value>
void pack_values(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  auto* to = reinterpret_cast<Value*>(panel_data);
  for (size_t row = 0; row < kPanelRows; ++row) {
    const auto* from = reinterpret_cast<const Value*>(rows + row * row_bytes);
    for (size_t k = 0; k < cols; ++k) to[k * kPanelRows + row] = row < valid ? from[k] : Value{};
  }
}

constexpr size_t k_sub_bytes(DType dtype) { return dtype == DType::kQ5_K ? panel::kQ5KSub : panel::kQ4KSub; }

// Q4_K and Q5_K.
void pack_k_min(DType dtype, const std::byte* rows, size_t row_bytes, size_t valid, size_t cols,
                std::byte* panel_data) {
  const size_t sub_bytes = k_sub_bytes(dtype);
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + cols / 32 * sub_bytes;
  std::memset(quants, 0, cols / 32 * sub_bytes + cols / 256 * panel::kKScales);
  each_block(dtype, rows, row_bytes, valid, cols, [&](size_t row, size_t b, const IntBlock& block) {
    uint8_t* scale = scales + b * panel::kKScales;
    for (size_t s = 0; s < 8; ++s) {
      uint8_t* sub = quants + (b * 8 + s) * sub_bytes;
      for (size_t i = 0; i < 32; ++i) {
        const auto q = static_cast<uint8_t>(block.q[s * 32 + i]);
        put_nibble(sub, row, i, q);
        if (dtype == DType::kQ5_K) {
          uint8_t& bits = sub[panel::kNibbleSub + row * 4 + i % 4];
          bits = static_cast<uint8_t>(bits | (q >> 4 & 1) << (i / 4));
        }
      }
      scale[s * kPanelRows + row] = static_cast<uint8_t>(block.scale[s]);
      scale[panel::kKMinsOffset + (s / 2 * kPanelRows + row) * 2 + s % 2] =
          static_cast<uint8_t>(block.min[s]);
    }
    put_half(scale + panel::kKDOffset, row, block.d);
    put_half(scale + panel::kKDOffset + panel::kScaleRow, row, block.dmin);
  });
}

}  // namespace

void pack_f32(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_values<float>(rows, row_bytes, valid, cols, panel_data);
}

void pack_half(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_values<uint16_t>(rows, row_bytes, valid, cols, panel_data);
}

void pack_q8_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + panel::q8_0_scales(cols);
  std::memset(quants, 0, panel::q8_0_bytes(cols));
  each_block(DType::kQ8_0, rows, row_bytes, valid, cols, [&](size_t row, size_t b, const IntBlock& block) {
    for (size_t i = 0; i < 32; ++i)
      quants[b * panel::kByteSub + byte_at(row, i)] = static_cast<uint8_t>(block.q[i]);
    put_half(scales + b * panel::kScaleRow, row, block.d);
  });
}

void pack_q4_0(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + panel::q4_0_scales(cols);
  std::memset(quants, 0, panel::q4_0_bytes(cols));
  each_block(DType::kQ4_0, rows, row_bytes, valid, cols, [&](size_t row, size_t b, const IntBlock& block) {
    for (size_t i = 0; i < 32; ++i)
      put_nibble(quants + b * panel::kNibbleSub, row, i, static_cast<uint8_t>(block.q[i] + 8));
    put_half(scales + b * panel::kScaleRow, row, block.d);
  });
}

void pack_q4_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_k_min(DType::kQ4_K, rows, row_bytes, valid, cols, panel_data);
}

void pack_q5_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  pack_k_min(DType::kQ5_K, rows, row_bytes, valid, cols, panel_data);
}

void pack_q6_k(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel_data) {
  uint8_t* quants = bytes(panel_data);
  uint8_t* scales = quants + cols / 32 * panel::kQ6KSub;
  std::memset(quants, 0, cols / 32 * panel::kQ6KSub + cols / 256 * panel::kQ6KScales);
  each_block(DType::kQ6_K, rows, row_bytes, valid, cols, [&](size_t row, size_t b, const IntBlock& block) {
    uint8_t* scale = scales + b * panel::kQ6KScales;
    for (size_t i = 0; i < 256; ++i) {
      uint8_t* sub = quants + (b * 8 + i / 32) * panel::kQ6KSub;
      const auto q = static_cast<uint8_t>(block.q[i] + 32);
      const size_t chunk = i % 32 / 4;
      put_nibble(sub, row, i % 32, q);
      uint8_t& bits = sub[panel::kNibbleSub + chunk / 4 * panel::kChunkBytes + row * 4 + i % 4];
      bits = static_cast<uint8_t>(bits | (q >> 4 & 3) << (chunk % 4 * 2));
    }
    for (size_t g = 0; g < 16; ++g)
      scale[(g / 2 * kPanelRows + row) * 2 + g % 2] = static_cast<uint8_t>(block.scale[g]);
    put_half(scale + panel::kQ6KDOffset, row, block.d);
  });
}

void unpack_panel_block(DType dtype, const std::byte* panel_data, size_t cols, size_t row, size_t b,
                        IntBlock* to) {
  const uint8_t* quants = bytes(panel_data);
  to->dmin = 0;
  switch (dtype) {
    case DType::kQ8_0:
      for (size_t i = 0; i < 32; ++i)
        to->q[i] = static_cast<int8_t>(quants[b * panel::kByteSub + byte_at(row, i)]);
      to->d = get_half(quants + panel::q8_0_scales(cols) + b * panel::kScaleRow, row);
      to->scale[0] = 1;
      to->min[0] = 0;
      return;
    case DType::kQ4_0:
      for (size_t i = 0; i < 32; ++i)
        to->q[i] = static_cast<int8_t>(get_nibble(quants + b * panel::kNibbleSub, row, i) - 8);
      to->d = get_half(quants + panel::q4_0_scales(cols) + b * panel::kScaleRow, row);
      to->scale[0] = 1;
      to->min[0] = 0;
      return;
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const size_t sub_bytes = k_sub_bytes(dtype);
      const uint8_t* scale = quants + cols / 32 * sub_bytes + b * panel::kKScales;
      for (size_t i = 0; i < 256; ++i) {
        const uint8_t* sub = quants + (b * 8 + i / 32) * sub_bytes;
        uint8_t q = get_nibble(sub, row, i % 32);
        if (dtype == DType::kQ5_K)
          q = static_cast<uint8_t>(q | (sub[panel::kNibbleSub + row * 4 + i % 4] >> (i % 32 / 4) & 1) << 4);
        to->q[i] = static_cast<int8_t>(q);
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
