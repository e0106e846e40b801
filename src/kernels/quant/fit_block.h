// Quantisers proper: floats in, the integers of one block out. Types differ only in the numbers passed here
// and in how they pack the result. Every output is finite, whatever the input.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// One scale: 32 values, q in [q_min, -q_min - 1].
void fit_symmetric_block(const float* from, int32_t q_min, IntBlock* to);

// One scale and one minimum: 32 values, q in [0, q_max], min = 1, dmin = -m.
void fit_affine_block(const float* from, int32_t q_max, IntBlock* to);

// 256 values in 16 groups; d times an integer scale in [scale_min, -scale_min - 1] per group; q in [q_min,
// -q_min - 1].
void fit_symmetric_super_block(const float* from, int32_t q_min, int32_t scale_min, IntBlock* to);

// The integers that a type allows.
struct AffineSuperBlock {
  size_t group_values;
  int32_t q_max;
  int32_t scale_max;  // of the integer scales and of the integer minima
};
// 256 values in groups; d * scale[g] * q - dmin * min[g], all integers unsigned.
void fit_affine_super_block(const float* from, const AffineSuperBlock& shape, IntBlock* to);

}  // namespace butterfly::kernels
