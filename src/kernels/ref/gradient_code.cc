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

// One block in numbers up to `most`; put(i, q) for each. Returns the scale.
template <typename Put>
float encode_block(float* values, float* residual, size_t count, float most, Put put) {
  uint32_t largest = 0;  // as bits: those that are not finite come last
  for (size_t i = 0; i < count; ++i) {
    residual[i] = values[i] + residual[i];
    largest = std::max(largest, magnitude(residual[i]));
  }
  float scale = 0, inverse = 0;
  if (largest >= kInfinity) {
    scale = std::numeric_limits<float>::quiet_NaN();
  } else if (largest >= kSmallest) {
    scale = std::bit_cast<float>(largest) / most;
    inverse = most / std::bit_cast<float>(largest);
  }
  for (size_t i = 0; i < count; ++i) {
    // A rounded product may be a little above the most.
    const auto q = static_cast<int8_t>(
        inverse == 0 ? 0 : std::clamp(std::nearbyint(residual[i] * inverse), -most, most));
    put(i, q);
    values[i] = static_cast<float>(q) * scale;  // of an integer: a product may be -0
    residual[i] = residual[i] - values[i];
  }
  return scale;
}

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
  for (size_t begin = 0; begin < count; begin += kCodeBlock)
    scales[begin / kCodeBlock] =
        encode_block(values + begin, residual + begin, std::min(count - begin, kCodeBlock), 127.0f,
                     [&](size_t i, int8_t q) { code[begin + i] = q; });
}

void decode_int8(const float* scales, const int8_t* code, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(code[i]) * scales[i / kCodeBlock];
}

void encode_int4(float* values, float* residual, float* scales, int8_t* code, size_t count) {
  for (size_t begin = 0; begin < count; begin += kCode4Block) {
    const size_t size = std::min(count - begin, kCode4Block), half = (size + 1) / 2;
    int8_t* to = code + begin / 2;
    std::fill_n(to, half, int8_t{0});
    scales[begin / kCode4Block] =
        encode_block(values + begin, residual + begin, size, 7.0f, [&](size_t i, int8_t q) {
          const int place = i < half ? 0 : 4;
          int8_t& byte = to[i < half ? i : i - half];
          byte = static_cast<int8_t>(byte | ((q & 15) << place));
        });
  }
}

void decode_int4(const float* scales, const int8_t* code, float* values, size_t count) {
  for (size_t begin = 0; begin < count; begin += kCode4Block) {
    const size_t size = std::min(count - begin, kCode4Block), half = (size + 1) / 2;
    for (size_t i = 0; i < size; ++i) {
      const int bits = i < half ? code[begin / 2 + i] & 15 : (code[begin / 2 + i - half] >> 4) & 15;
      values[begin + i] = static_cast<float>(bits < 8 ? bits : bits - 16) * scales[begin / kCode4Block];
    }
  }
}

}  // namespace butterfly::kernels::ref
