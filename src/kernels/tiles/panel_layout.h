// Where things stand inside a packed panel of 16 rows. Shared by packing, the fast kernels and the reference.
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

// Types with 32-value blocks: quants of all sub-blocks, then one row of f16 scales per sub-block, and for
// Q4_1 and Q5_1 a second row with the minimums. Five-bit types add 64 bytes of fifth bits to a sub-block (bit
// c of byte (row, j) belongs to chunk c).
inline constexpr size_t kFiveBitSub = kNibbleSub + kChunkBytes;
inline constexpr size_t q32_scales(size_t cols, size_t sub_bytes) { return cols / 32 * sub_bytes; }
inline constexpr size_t q32_bytes(size_t cols, size_t sub_bytes, size_t scale_rows) {
  return cols / 32 * (sub_bytes + scale_rows * kScaleRow);
}

// Q8_0, which pages of the KV cache share.
inline constexpr size_t q8_0_scales(size_t cols) { return q32_scales(cols, kByteSub); }
inline constexpr size_t q8_0_bytes(size_t cols) { return q32_bytes(cols, kByteSub, 1); }

// Q4_K, Q5_K: per 256 columns eight sub-blocks; Q5_K's are five-bit ones. Scales: u8 scale[8][16 rows], u8
// min[4 pairs][16 rows][2], f16 d[16], f16 dmin[16].
inline constexpr size_t kQ4KSub = kNibbleSub;
inline constexpr size_t kQ5KSub = kFiveBitSub;
inline constexpr size_t kKScales = 8 * kPanelRows + 8 * kPanelRows + 2 * kScaleRow;  // 320
inline constexpr size_t kKMinsOffset = 8 * kPanelRows;
inline constexpr size_t kKDOffset = 16 * kPanelRows;

// Q6_K: a sub-block is the nibbles and two 64-byte planes of upper bits: bits 2i, 2i+1 of plane h belong to
// chunk 4h + i. Scales: i8 scale[8 pairs][16 rows][2] for groups of 16 columns, f16 d[16].
inline constexpr size_t kQ6KSub = kNibbleSub + 2 * kChunkBytes;
inline constexpr size_t kQ6KScales = 16 * kPanelRows + kScaleRow;  // 288
inline constexpr size_t kQ6KDOffset = 16 * kPanelRows;

}  // namespace butterfly::kernels::panel
