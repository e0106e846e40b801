#include <cmath>

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/rows/reduce.h"
#include "kernels/simd/lanes.h"

namespace butterfly::kernels::ref {

void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count) {
  if (count == 0) return;
  const float mean = sum_squares(x, count) / static_cast<float>(count);
  const float s = 1.0f / std::sqrt(mean + eps);
  for (size_t i = 0; i < count; ++i) out[i] = weight == nullptr ? x[i] * s : x[i] * s * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count) {
  if (count == 0) return;
  const auto n = static_cast<float>(count);
  const float mean = sum(x, count) / n;
  float lanes[kLogicalLanes] = {};
  for (size_t i = 0; i < count; ++i) {
    const float centred = x[i] - mean;
    float& lane = lanes[i % kLogicalLanes];
    lane = std::fma(centred, centred, lane);
  }
  const float s = 1.0f / std::sqrt(reduce_lanes(lanes) / n + eps);
  for (size_t i = 0; i < count; ++i) {
    const float unit = (x[i] - mean) * s;
    if (weight != nullptr && bias != nullptr) {
      out[i] = std::fma(unit, weight[i], bias[i]);
    } else if (weight != nullptr) {
      out[i] = unit * weight[i];
    } else {
      out[i] = bias != nullptr ? unit + bias[i] : unit;
    }
  }
}

}  // namespace butterfly::kernels::ref
