// Loops over float arrays for kernel sources: any size, any alignment, no access outside of the arrays.
//
// An element's result never depends on where it stands: the last, partial vector goes through a small buffer
// and the same vector code as the rest.
#if defined(BUTTERFLY_KERNELS_VECTOR_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_VECTOR_LOOPS_INL_H_
#undef BUTTERFLY_KERNELS_VECTOR_LOOPS_INL_H_
#else
#define BUTTERFLY_KERNELS_VECTOR_LOOPS_INL_H_
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The first `count` < kVF floats; zeros behind them.
HWY_INLINE VF LoadTail(const float* from, size_t count) {
  alignas(64) float buffer[kVF] = {};
  std::memcpy(buffer, from, count * sizeof(float));
  return hn::Load(DF(), buffer);
}
HWY_INLINE void StoreTail(VF v, float* to, size_t count) {
  alignas(64) float buffer[kVF];
  hn::Store(v, DF(), buffer);
  std::memcpy(to, buffer, count * sizeof(float));
}

// out[i] = f(in[i]...). `out` may be one of the inputs, but must not overlap one otherwise.
template <class F, class... In>
HWY_INLINE void Map(F f, float* out, size_t count, In... in) {
  const DF d;
  size_t i = 0;
  for (; i + 2 * kVF <= count; i += 2 * kVF) {
    const VF v0 = f(hn::LoadU(d, in + i)...);
    const VF v1 = f(hn::LoadU(d, in + i + kVF)...);
    hn::StoreU(v0, d, out + i);
    hn::StoreU(v1, d, out + i + kVF);
  }
  for (; i + kVF <= count; i += kVF) hn::StoreU(f(hn::LoadU(d, in + i)...), d, out + i);
  if (i < count) StoreTail(f(LoadTail(in + i, count - i)...), out + i, count - i);
}

// As Map, for functions that compute as long as memory takes: so few elements fit into the processor's window
// that it does not look far enough ahead by itself.
template <class F, class... In>
HWY_INLINE void MapPrefetched(F f, float* out, size_t count, In... in) {
  constexpr size_t kAhead = 512;
  const DF d;
  size_t i = 0;
  for (; i + 2 * 16 + kAhead <= count; i += 2 * 16) {
    (__builtin_prefetch(in + i + kAhead, 0, 3), ...);
    (__builtin_prefetch(in + i + kAhead + 16, 0, 3), ...);
    for (size_t j = i; j < i + 2 * 16; j += 2 * kVF) {
      const VF v0 = f(hn::LoadU(d, in + j)...);
      const VF v1 = f(hn::LoadU(d, in + j + kVF)...);
      hn::StoreU(v0, d, out + j);
      hn::StoreU(v1, d, out + j + kVF);
    }
  }
  Map(f, out + i, count - i, (in + i)...);
}

// As Map, but stores past the caches.
template <class F, class... In>
HWY_INLINE void MapStream(F f, float* out, size_t count, In... in) {
  const DF d;
  const size_t ahead = reinterpret_cast<uintptr_t>(out) % 64 / sizeof(float);
  size_t i = ahead == 0 ? 0 : 16 - ahead;
  Map(f, out, i, in...);
  // Whole cache lines at a time, so that they leave the write-combining buffer full.
  for (; i + 16 <= count; i += 16)
    for (size_t j = i; j < i + 16; j += kVF) hn::Stream(f(hn::LoadU(d, in + j)...), d, out + j);
  hwy::FlushStream();
  Map(f, out + i, count - i, (in + i)...);
}

// Sum over the logical lanes: element i goes to lane i % kLogicalLanes by lane = f(lane, in[i]...), then
// reduce_lanes().
template <class F, class... In>
HWY_INLINE float SumLanes(F f, size_t count, In... in) {
  const DF d;
  LaneSums sums;
  size_t i = 0;
  for (; i + kLogicalLanes <= count; i += kLogicalLanes) {
#pragma GCC unroll 8
    for (size_t p = 0; p < LaneSums::kVectors; ++p)
      sums.v[p] = f(sums.v[p], hn::LoadU(d, in + i + p * kVF)...);
  }
#pragma GCC unroll 8
  for (size_t p = 0; p < LaneSums::kVectors; ++p) {
    if (i + kVF <= count) {
      sums.v[p] = f(sums.v[p], hn::LoadU(d, in + i)...);
      i += kVF;
    } else if (i < count) {
      const VF next = f(sums.v[p], LoadTail(in + i, count - i)...);
      sums.v[p] = hn::IfThenElse(hn::FirstN(d, count - i), next, sums.v[p]);
      i = count;
    }
  }
  return sums.Total();
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
