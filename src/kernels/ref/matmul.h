// The plain loops that define what a matrix product is. Slow, and the truth.
#pragma once
#include <cmath>

#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"

namespace butterfly::kernels::ref {

// From packed panels.
void matmul_panels(DType dtype, const MatmulJob& job);
// From rows in file layout (panel_bytes is 16 rows).
void matmul_rows(DType dtype, const MatmulJob& job);

// One block's exact sums join the accumulator.
inline float add_block(float acc, int32_t sum, int32_t mins, const IntBlock& weights, bool has_min,
                       float act_scale) {
  acc = std::fma(static_cast<float>(sum), weights.d * act_scale, acc);
  return has_min ? std::fma(static_cast<float>(mins), -(weights.dmin * act_scale), acc) : acc;
}

}  // namespace butterfly::kernels::ref
