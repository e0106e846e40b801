// Where things stand inside a packed panel of 16 rows: what several types share. (What one type alone has is
// in its file in panels/.)
//
// Integer types keep their quants in sub-blocks of 32 columns: eight chunks of 16 rows x 4 columns, one byte
// per value, chunk c holding columns 4c .. 4c+3. Four-bit planes put chunk 2i in the low and chunk 2i+1 in
// the high nibbles of the i-th 64 bytes. Quants of a whole panel come first (64-byte aligned loads), then its
// scales.
#pragma once
#include <cstddef>

#include "kernels/tiles/matmul_job.h"

namespace butterfly::kernels::panel {

inline constexpr size_t kChunkBytes = kPanelRows * 4;  // 64
inline constexpr size_t kNibbleSub = 4 * kChunkBytes;  // 32 columns of 4-bit values
inline constexpr size_t kByteSub = 8 * kChunkBytes;    // 32 columns of 8-bit values
inline constexpr size_t kScaleRow = kPanelRows * 2;    // 16 f16 scales
inline constexpr size_t kPowerRow = kPanelRows;        // 16 exponents of scales
// 32 columns of 5-bit values: nibbles, then 64 bytes of fifth bits (bit c of byte (row, j) belongs to chunk
// c).
inline constexpr size_t kFiveBitSub = kNibbleSub + kChunkBytes;

// Types with 32-value blocks: quants of all sub-blocks, then one row of f16 scales per sub-block, and for
// types with a minimum a second row.
inline constexpr size_t q32_scales(size_t cols, size_t sub_bytes) { return cols / 32 * sub_bytes; }
inline constexpr size_t q32_bytes(size_t cols, size_t sub_bytes, size_t scale_rows) {
  return cols / 32 * (sub_bytes + scale_rows * kScaleRow);
}

// Q8_0, which pages of the KV cache share.
inline constexpr size_t q8_0_scales(size_t cols) { return q32_scales(cols, kByteSub); }
inline constexpr size_t q8_0_bytes(size_t cols) { return q32_bytes(cols, kByteSub, 1); }

// Q4_K and Q5_K: per 256 columns eight sub-blocks. Scales: u8 scale[8][16 rows], u8 min[4 pairs][16 rows][2],
// f16 d[16], f16 dmin[16].
inline constexpr size_t kKScales = 8 * kPanelRows + 8 * kPanelRows + 2 * kScaleRow;  // 320
inline constexpr size_t kKMinsOffset = 8 * kPanelRows;
inline constexpr size_t kKDOffset = 16 * kPanelRows;

}  // namespace butterfly::kernels::panel
