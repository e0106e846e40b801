#include "kernels/optim/adam_bf16.h"

#include "kernels/optim/optimizer_factors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optim/adam_bf16.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void adam_bf16_range(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                     size_t begin, size_t end, uint32_t key, size_t first) {
  ref::adam_update_bf16(step, grad, param, m, v, begin, end, key, first);
}

#else

// mix_bits() of kVF places from `first` on.
HWY_INLINE hn::Vec<DU> MixBits(uint32_t first, uint32_t key) {
  const DU d;
  auto h = hn::Xor(hn::Mul(hn::Iota(d, first), hn::Set(d, kMix0)), hn::Set(d, key));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, kMix1));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, kMix2));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

HWY_INLINE void StoreAtRandom(VF value, hn::Vec<DU> bits16, uint16_t* to) {
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::BitCast(DU(), value), bits16));
  const hn::Rebind<uint16_t, DF> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), rounded)), d16, to);
}

void adam_bf16_range(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                     size_t begin, size_t end, uint32_t key, size_t first) {
  const DF d;
  const AdamFactors f(step);
  const VF scale = hn::Set(d, f.grad_scale), decay = hn::Set(d, f.decay), keep_m = hn::Set(d, f.keep_m),
           keep_v = hn::Set(d, f.keep_v), root = hn::Set(d, f.root), eps = hn::Set(d, f.eps),
           minus_rate = hn::Set(d, -f.rate), shrink = hn::Set(d, f.shrink);
  size_t i = begin;
  for (; i + kVF <= end; i += kVF) {
    const VF p = hn::LoadU(d, param + i), m_old = LoadBF16(m + i), v_old = LoadBF16(v + i);
    const VF g = Fma(decay, p, hn::Mul(hn::LoadU(d, grad + i), scale));
    const VF m_new = Fma(keep_m, hn::Sub(g, m_old), m_old);
    const VF v_new = Fma(keep_v, Fma(g, g, hn::Neg(v_old)), v_old);
    const VF denominator = Fma(hn::Sqrt(v_new), root, eps);
    hn::StoreU(Fma(minus_rate, hn::Div(m_new, denominator), hn::Mul(p, shrink)), d, param + i);
    const auto bits = MixBits(static_cast<uint32_t>(first + i), key);
    StoreAtRandom(m_new, hn::And(bits, hn::Set(DU(), 0xffffu)), m + i);
    StoreAtRandom(v_new, hn::ShiftRight<16>(bits), v + i);
  }
  ref::adam_update_bf16(step, grad, param, m, v, i, end, key, first);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(adam_bf16_range);
}  // namespace

void adam_update_bf16(const AdamStep& step, const float* grad, float* param, uint16_t* m, uint16_t* v,
                      size_t count, uint32_t key, ThreadPool& pool, size_t first) {
  pool.parallel_for(count, 4096, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(adam_bf16_range)(step, grad, param, m, v, begin, end, key, first);
  });
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
