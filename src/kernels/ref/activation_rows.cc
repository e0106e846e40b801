#include "kernels/tiles/activation_rows.h"

#include <algorithm>
#include <cmath>

namespace butterfly::kernels::ref {

void quantize_activation(ActKind kind, const float* x, size_t k, std::byte* row) {
  const size_t block = act_block(kind);
  const ActLayout layout = act_layout(kind, k);
  auto* q = reinterpret_cast<int8_t*>(row);
  auto* scales = reinterpret_cast<float*>(row + layout.scales_offset);
  auto* sums = reinterpret_cast<int16_t*>(row + layout.sums_offset);
  for (size_t b = 0; b * block < k; ++b) {
    uint32_t most = 0;
    for (size_t i = 0; i < block; ++i)
      most = std::max(most, std::bit_cast<uint32_t>(x[b * block + i]) & 0x7fffffffu);
    const ActScale scale = act_scale(most);
    scales[b] = scale.d;
    for (size_t i = b * block; i < (b + 1) * block; ++i) {
      const float value = scale.inverse == 0 ? 0.0f : x[i] * scale.inverse;
      q[i] = static_cast<int8_t>(std::rint(value));
    }
    for (size_t g = b * block / 16; g < (b + 1) * block / 16; ++g) {
      sums[g] = 0;
      for (size_t i = 0; i < 16; ++i) sums[g] = static_cast<int16_t>(sums[g] + q[16 * g + i]);
    }
  }
}

}  // namespace butterfly::kernels::ref
