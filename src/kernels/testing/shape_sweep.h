// For tests of this folder: array sizes and misalignments worth trying, on every target.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/digest/test_floats.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {

// Calls fn(target, count, offset): every count up to 80 (five of the widest vectors), some larger, pointers
// `offset` floats off their alignment.
template <class F>
void for_each_shape(F&& fn) {
  for_each_target([&](const std::string& target) {
    for (size_t offset = 0; offset < 4; ++offset) {
      for (size_t count = 0; count <= 80; ++count) fn(target, count, offset);
      for (size_t count : {127, 128, 129, 1000, 4099}) fn(target, size_t{count}, offset);
    }
  });
}

// `count` floats that end with their allocation and start `offset` floats into it, so that the address
// sanitizer sees any access beyond.
class OffsetFloats {
 public:
  OffsetFloats(size_t count, size_t offset) : values_(offset + count), offset_(offset) {}
  OffsetFloats(const std::vector<float>& from, size_t count, size_t offset) : OffsetFloats(count, offset) {
    for (size_t i = 0; i < count; ++i) data()[i] = from[i % from.size()];
  }
  float* data() { return values_.data() + offset_; }
  const float* data() const { return values_.data() + offset_; }
  size_t size() const { return values_.size() - offset_; }

 private:
  std::vector<float> values_;
  size_t offset_;
};

// Values of many magnitudes with zeros of both signs, infinities and a NaN here and there.
inline std::vector<float> wild_floats(size_t count, uint64_t stream) {
  std::vector<float> out = random_floats(count, stream);
  for (size_t i = 0; i < count; ++i) {
    const auto r = static_cast<uint32_t>(random_u64(12, stream, i));
    if (r % 3 == 0) out[i] = std::ldexp(out[i], static_cast<int>(r >> 8) % 60 - 30);
    if (r % 53 == 1) out[i] = r & 256 ? 0.0f : -0.0f;
    if (r % 211 == 2) out[i] = r & 256 ? INFINITY : -INFINITY;
    if (r % 307 == 3) out[i] = NAN;
    if (r % 101 == 4) out[i] = 0x1p-140f;
  }
  return out;
}

}  // namespace butterfly::kernels
