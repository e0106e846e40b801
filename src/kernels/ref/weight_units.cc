#include "kernels/rows/weight_units.h"

#include <algorithm>
#include <cmath>

#include "kernels/math/math.h"

namespace butterfly::kernels::ref {

void weigh_logits(const float* logits, size_t count, WeightScale scale, float* weights) {
  for (size_t i = 0; i < count; ++i) weights[i] = exp_f32((logits[i] - scale.largest) / scale.temperature);
}

uint64_t sum_units(const float* logits, size_t count, float least, WeightScale scale) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (logits[i] < least) continue;
    sum += static_cast<uint64_t>(std::rint(exp_f32((logits[i] - scale.largest) / scale.temperature) *
                                           std::ldexp(1.0, kWeightUnitBits)));
  }
  return sum;
}

void sum_unit_blocks(const float* logits, size_t count, size_t block, WeightScale scale, uint64_t* sums) {
  for (size_t begin = 0; begin < count; begin += block)
    *sums++ = ref::sum_units(logits + begin, std::min(block, count - begin), -INFINITY, scale);
}

}  // namespace butterfly::kernels::ref
