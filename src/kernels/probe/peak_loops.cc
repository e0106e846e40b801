#include "kernels/probe/peak_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/probe/peak_loops.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

// Enough independent sums to hide 4 cycles of latency on 2 ports, and to fit in 16 registers with the
// factors.
inline constexpr uint64_t kChains = 12;

// Keeps a value in a register and out of the optimiser's sight, so that no round is folded into another.
#if HWY_ARCH_X86
#define BF_OPAQUE(x) asm volatile("" : "+x"(x))
#define BF_OPAQUE_WIDE(x) asm volatile("" : "+v"(x))
#else
#define BF_OPAQUE(x) asm volatile("" : "+w"(x))
#endif

#if HWY_TARGET == HWY_SCALAR

uint64_t run_fma(uint64_t rounds) {
  float sums[kChains] = {};
  float a = 0x1p-30f, b = 1.5f;
  for (uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (float& s : sums) {
      s += a * b;  // what plain code does: two roundings, no fused instruction in the base instruction set
      BF_OPAQUE(s);
    }
  }
  return rounds * kChains * 2;
}

uint64_t run_int8(uint64_t rounds) {
  int32_t sums[kChains] = {};
  int8_t a = 3, b = -5;
  for (uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int32_t& s : sums) {
      asm volatile("" : "+r"(a), "+r"(b));
      s += int32_t{a} * int32_t{b};
      asm volatile("" : "+r"(s));
    }
  }
  return rounds * kChains * 2;
}

const char* int8_instruction() { return "scalar"; }

#else

#if HWY_TARGET == HWY_AVX3_DL
#define BF_OPAQUE_VECTOR(v) BF_OPAQUE_WIDE((v).raw)
#else
#define BF_OPAQUE_VECTOR(v) BF_OPAQUE((v).raw)
#endif

uint64_t run_fma(uint64_t rounds) {
  const DF d;
  VF sums[kChains];
  for (VF& s : sums) s = hn::Zero(d);
  const VF a = hn::Set(d, 0x1p-30f), b = hn::Set(d, 1.5f);
  for (uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (VF& s : sums) {
      // Not Fma(): without the instruction the peak is that of separate products and sums.
      s = hn::MulAdd(a, b, s);
      BF_OPAQUE_VECTOR(s);
    }
  }
  return rounds * kChains * kVF * 2;
}

// One round: s += products of the bytes of a and b, four or more to a 32-bit sum.
HWY_INLINE VI AddByteProducts(VI a, VI b, VI s) {
#if HWY_TARGET == HWY_AVX3_DL
  // Highway compiles this target without avx512vnni, but only runs it where the CPU has it.
  asm volatile("vpdpbusd %2, %1, %0" : "+v"(s.raw) : "v"(a.raw), "v"(b.raw));
#elif HWY_TARGET == HWY_AVX2
  s.raw =
      _mm256_add_epi32(s.raw, _mm256_madd_epi16(_mm256_maddubs_epi16(a.raw, b.raw), _mm256_set1_epi16(1)));
#elif HWY_TARGET == HWY_SSE4
  s.raw = _mm_add_epi32(s.raw, _mm_madd_epi16(_mm_maddubs_epi16(a.raw, b.raw), _mm_set1_epi16(1)));
#elif HWY_TARGET == HWY_NEON
  const int8x16_t x = vreinterpretq_s8_s32(a.raw), y = vreinterpretq_s8_s32(b.raw);
  s.raw = vpadalq_s16(s.raw, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
  s.raw = vpadalq_s16(s.raw, vmull_high_s8(x, y));
#else
#error "add the int8 product of this target"
#endif
  return s;
}

uint64_t run_int8(uint64_t rounds) {
  const DI d;
  VI sums[kChains];
  for (VI& s : sums) s = hn::Zero(d);
  VI a = hn::Set(d, 0x01020304), b = hn::Set(d, 0x7f0181ff);
  for (uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (VI& s : sums) {
      BF_OPAQUE_VECTOR(a);  // so that the products are not computed once for all rounds
      s = AddByteProducts(a, b, s);
      BF_OPAQUE_VECTOR(s);
    }
  }
  return rounds * kChains * kVF * 4 * 2;
}

const char* int8_instruction() {
#if HWY_TARGET == HWY_AVX3_DL
  return "vpdpbusd";
#elif HWY_TARGET == HWY_NEON
  return "smull + sadalp";
#else
  return "maddubs + madd";
#endif
}

#undef BF_OPAQUE_VECTOR
#endif

#undef BF_OPAQUE
#undef BF_OPAQUE_WIDE

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/amx/amx_peak.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_fma);
HWY_EXPORT(run_int8);
HWY_EXPORT(int8_instruction);
}  // namespace

uint64_t run_fma(uint64_t rounds) { return HWY_DYNAMIC_DISPATCH(run_fma)(rounds); }
uint64_t run_int8(uint64_t rounds) {
  return tiles_chosen() ? amx::run_int8(rounds) : HWY_DYNAMIC_DISPATCH(run_int8)(rounds);
}
const char* int8_instruction() {
  return tiles_chosen() ? "tdpbssd" : HWY_DYNAMIC_DISPATCH(int8_instruction)();
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
