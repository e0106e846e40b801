#include "kernels/probe/memory_loops.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/probe/memory_loops.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

float read_memory(const float* from, size_t count) {
  uint32_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= std::bit_cast<uint32_t>(from[i]);
  return std::bit_cast<float>(bits);
}
float read_memory2(const float* a, const float* b, size_t count) {
  uint32_t bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= std::bit_cast<uint32_t>(a[i]) | std::bit_cast<uint32_t>(b[i]);
  return std::bit_cast<float>(bits);
}
void copy_memory(const float* from, float* to, size_t count, StoreKind) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
}
void merge_memory(const float* a, const float* b, float* to, size_t count, StoreKind) {
  for (size_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(a[i]) | std::bit_cast<uint32_t>(b[i]));
}

#else

float read_memory(const float* from, size_t count) {
  const DF d;
  VF v0 = hn::Zero(d), v1 = v0, v2 = v0, v3 = v0;
  for (size_t i = 0; i < count; i += 4 * kVF) {
    v0 = hn::Or(v0, hn::Load(d, from + i));
    v1 = hn::Or(v1, hn::Load(d, from + i + kVF));
    v2 = hn::Or(v2, hn::Load(d, from + i + 2 * kVF));
    v3 = hn::Or(v3, hn::Load(d, from + i + 3 * kVF));
  }
  return hn::GetLane(hn::Or(hn::Or(v0, v1), hn::Or(v2, v3)));
}

float read_memory2(const float* a, const float* b, size_t count) {
  const DF d;
  VF v0 = hn::Zero(d), v1 = v0, v2 = v0, v3 = v0;
  for (size_t i = 0; i < count; i += 2 * kVF) {
    v0 = hn::Or(v0, hn::Load(d, a + i));
    v1 = hn::Or(v1, hn::Load(d, b + i));
    v2 = hn::Or(v2, hn::Load(d, a + i + kVF));
    v3 = hn::Or(v3, hn::Load(d, b + i + kVF));
  }
  return hn::GetLane(hn::Or(hn::Or(v0, v1), hn::Or(v2, v3)));
}

void copy_memory(const float* from, float* to, size_t count, StoreKind store) {
  const DF d;
  if (store == StoreKind::kPlain) {
    for (size_t i = 0; i < count; i += 2 * kVF) {
      const VF v0 = hn::Load(d, from + i), v1 = hn::Load(d, from + i + kVF);
      hn::Store(v0, d, to + i);
      hn::Store(v1, d, to + i + kVF);
    }
  } else {
    for (size_t i = 0; i < count; i += 16)
      for (size_t j = i; j < i + 16; j += kVF) hn::Stream(hn::Load(d, from + j), d, to + j);
    hwy::FlushStream();
  }
}

void merge_memory(const float* a, const float* b, float* to, size_t count, StoreKind store) {
  const DF d;
  if (store == StoreKind::kPlain) {
    for (size_t i = 0; i < count; i += 2 * kVF) {
      const VF v0 = hn::Or(hn::Load(d, a + i), hn::Load(d, b + i));
      const VF v1 = hn::Or(hn::Load(d, a + i + kVF), hn::Load(d, b + i + kVF));
      hn::Store(v0, d, to + i);
      hn::Store(v1, d, to + i + kVF);
    }
  } else {
    for (size_t i = 0; i < count; i += 16)
      for (size_t j = i; j < i + 16; j += kVF)
        hn::Stream(hn::Or(hn::Load(d, a + j), hn::Load(d, b + j)), d, to + j);
    hwy::FlushStream();
  }
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(read_memory);
HWY_EXPORT(read_memory2);
HWY_EXPORT(copy_memory);
HWY_EXPORT(merge_memory);
}  // namespace

float read_memory(const float* from, size_t count) { return HWY_DYNAMIC_DISPATCH(read_memory)(from, count); }
float read_memory2(const float* a, const float* b, size_t count) {
  return HWY_DYNAMIC_DISPATCH(read_memory2)(a, b, count);
}
void copy_memory(const float* from, float* to, size_t count, StoreKind store) {
  HWY_DYNAMIC_DISPATCH(copy_memory)(from, to, count, store);
}
void merge_memory(const float* a, const float* b, float* to, size_t count, StoreKind store) {
  HWY_DYNAMIC_DISPATCH(merge_memory)(a, b, to, count, store);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
