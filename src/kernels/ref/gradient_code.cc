#include "kernels/optim/gradient_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/simd/half.h"

namespace butterfly::kernels::ref {
namespace {

constexpr uint32_t kSmallest = 0x0d800000;  // 2^-100: below it 127 / m could overflow
constexpr uint32_t kInfinity = 0x7f800000;

uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

}  // namespace

void encode_bf16(float* values, uint16_t* code, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    code[i] = f32_to_bf16(values[i]);
    values[i] = bf16_to_f32(code[i]);
  }
}

void decode_bf16(const uint16_t* code, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = bf16_to_f32(code[i]);
}

void encode_int8(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  for (size_t begin = 0; begin < count; begin += kCodeBlock) {
    const size_t end = std::min(count, begin + kCodeBlock);
    uint32_t largest = 0;  // as bits: those that are not finite come last
    for (size_t i = begin; i < end; ++i) {
      residual[i] = values[i] + residual[i];
      largest = std::max(largest, magnitude(residual[i]));
    }
    float scale = 0, inverse = 0;
    if (largest >= kInfinity) {
      scale = std::numeric_limits<float>::quiet_NaN();
    } else if (largest >= kSmallest) {
      scale = std::bit_cast<float>(largest) / 127.0f;
      inverse = 127.0f / std::bit_cast<float>(largest);
    }
    scales[begin / kCodeBlock] = scale;
    for (size_t i = begin; i < end; ++i) {
      // A rounded product may be a little above 127.
      const float q = inverse == 0 ? 0 : std::clamp(std::nearbyint(residual[i] * inverse), -127.0f, 127.0f);
      code[i] = static_cast<int8_t>(q);
      values[i] = static_cast<float>(code[i]) * scale;  // not of q, which may be -0
      residual[i] = residual[i] - values[i];
    }
  }
}

void decode_int8(const float* scales, const int8_t* code, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(code[i]) * scales[i / kCodeBlock];
}

}  // namespace butterfly::kernels::ref
