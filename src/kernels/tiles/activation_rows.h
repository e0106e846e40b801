// Activation rows in the form a weight type multiplies: plain floats, or 8-bit integers by blocks.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace butterfly::kernels {

enum class ActKind : uint8_t {
  kF32,    // floats as they are: F32, F16, BF16 weights
  kQ8x32,  // int8 with one scale per 32 values: weights of 32-value blocks
  kQ8x64,  // the same per 64 and 128 values
  kQ8x128,
  kQ8x256,  // int8 with one scale per 256 values: weights of 256-value blocks
};

ActKind act_kind(DType weights);
// Values per scale; 1 for kF32.
size_t act_block(ActKind kind);

// A quantised row of k values is q[k], then d[k / block], then sums[k / 16]: sums of 16 neighbouring q, which
// weights with an offset or a minimum need. Each part starts at a multiple of 64 bytes; so does the next row.
struct ActLayout {
  size_t scales_offset;
  size_t sums_offset;
  size_t row_bytes;
};
ActLayout act_layout(ActKind kind, size_t k);

// One row of floats to quantised form: a function of that row alone. q = round_even(x * (127 / max|x|)) with
// d = max|x| / 127. A block whose largest magnitude is below 2^-100 becomes zeros; one with inf or NaN gets d
// = NaN. k is a multiple of the block. `row` is 64-byte aligned.
void quantize_activation(ActKind kind, const float* x, size_t k, std::byte* row);

// Scale and its inverse for a block whose largest magnitude has these bits.
struct ActScale {
  float d;
  float inverse;
};
inline ActScale act_scale(uint32_t max_magnitude_bits) {
  if (max_magnitude_bits >= 0x7f800000u) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  const float most = std::bit_cast<float>(max_magnitude_bits);
  if (most < 0x1p-100f) return {0.0f, 0.0f};
  return {most / 127.0f, 127.0f / most};
}

namespace ref {
void quantize_activation(ActKind kind, const float* x, size_t k, std::byte* row);
}

}  // namespace butterfly::kernels
