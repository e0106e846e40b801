// How a block's exact integer sums become float: the one rounding step that every quantised product repeats.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// One block's exact sums join the accumulator.
inline float add_block(float acc, int32_t sum, int32_t mins, const IntBlock& weights, bool has_min,
                       float act_scale) {
  acc = std::fma(static_cast<float>(sum), weights.d * act_scale, acc);
  return has_min ? std::fma(static_cast<float>(mins), -(weights.dmin * act_scale), acc) : acc;
}

}  // namespace butterfly::kernels
