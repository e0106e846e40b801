#include "kernels/attention/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/rope.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void rope_interleaved(const float* rotations, size_t pairs, float* head) {
  ref::rope_interleaved(rotations, pairs, head);
}
void rope_half_split(const float* rotations, size_t pairs, float* head) {
  ref::rope_half_split(rotations, pairs, head);
}

#else

// (a, b) rotated by the angle with cosine c and sine s.
HWY_INLINE void Rotate(VF c, VF s, VF& a, VF& b) {
  const VF rotated = NegFma(b, s, hn::Mul(a, c));
  b = Fma(a, s, hn::Mul(b, c));
  a = rotated;
}

void rope_interleaved(const float* rotations, size_t pairs, float* head) {
  const DF d;
  const float* sines = rotations + pairs;
  VF a, b;
  size_t i = 0;
  for (; i + kVF <= pairs; i += kVF) {
    hn::LoadInterleaved2(d, head + 2 * i, a, b);
    Rotate(hn::LoadU(d, rotations + i), hn::LoadU(d, sines + i), a, b);
    hn::StoreInterleaved2(a, b, d, head + 2 * i);
  }
  if (i < pairs) {
    const size_t rest = pairs - i;
    alignas(64) float buffer[2 * kVF] = {};
    std::memcpy(buffer, head + 2 * i, 2 * rest * sizeof(float));
    hn::LoadInterleaved2(d, buffer, a, b);
    Rotate(LoadTail(rotations + i, rest), LoadTail(sines + i, rest), a, b);
    hn::StoreInterleaved2(a, b, d, buffer);
    std::memcpy(head + 2 * i, buffer, 2 * rest * sizeof(float));
  }
}

void rope_half_split(const float* rotations, size_t pairs, float* head) {
  const DF d;
  const float* sines = rotations + pairs;
  float* second = head + pairs;
  size_t i = 0;
  for (; i + kVF <= pairs; i += kVF) {
    VF a = hn::LoadU(d, head + i), b = hn::LoadU(d, second + i);
    Rotate(hn::LoadU(d, rotations + i), hn::LoadU(d, sines + i), a, b);
    hn::StoreU(a, d, head + i);
    hn::StoreU(b, d, second + i);
  }
  if (i < pairs) {
    const size_t rest = pairs - i;
    VF a = LoadTail(head + i, rest), b = LoadTail(second + i, rest);
    Rotate(LoadTail(rotations + i, rest), LoadTail(sines + i, rest), a, b);
    StoreTail(a, head + i, rest);
    StoreTail(b, second + i, rest);
  }
}

#endif

void rope(RopeLayout layout, const float* rotations, size_t pairs, float* x, size_t heads, size_t head_dim) {
  for (size_t h = 0; h < heads; ++h) {
    float* head = x + h * head_dim;
    if (layout == RopeLayout::kInterleaved) {
      rope_interleaved(rotations, pairs, head);
    } else {
      rope_half_split(rotations, pairs, head);
    }
  }
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(rope);
}  // namespace

void rope(RopeLayout layout, const float* rotations, size_t pairs, float* x, size_t heads, size_t head_dim) {
  HWY_DYNAMIC_DISPATCH(rope)(layout, rotations, pairs, x, heads, head_dim);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
