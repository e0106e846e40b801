#include "kernels/optim/optimizer_update.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/optim/optimizer_factors.h"
#include "kernels/rows/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optim/optimizer_update.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void adam_range(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count) {
  ref::adam_update(step, grad, param, m, v, count);
}
void sgd_range(const SgdStep& step, const float* grad, float* param, float* m, size_t count) {
  ref::sgd_update(step, grad, param, m, count);
}

#else
namespace {

// Calls f(loads, stores): whole vectors, then the last, partial one through a buffer. `load(p)` and
// `store(v, p)` are at the current place of array p.
template <class F>
HWY_INLINE void EachVector(size_t count, F f) {
  size_t i = 0;
  for (; i + kVF <= count; i += kVF)
    f([i](const float* p) HWY_ATTR { return hn::LoadU(DF(), p + i); },
      [i](VF x, float* p) HWY_ATTR { hn::StoreU(x, DF(), p + i); });
  const size_t rest = count - i;
  if (rest != 0)
    f([i, rest](const float* p) HWY_ATTR { return LoadTail(p + i, rest); },
      [i, rest](VF x, float* p) HWY_ATTR { StoreTail(x, p + i, rest); });
}

}  // namespace

void adam_range(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count) {
  const AdamFactors f(step);
  const DF d;
  const VF scale = hn::Set(d, f.grad_scale), decay = hn::Set(d, f.decay), shrink = hn::Set(d, f.shrink);
  const VF keep_m = hn::Set(d, f.keep_m), keep_v = hn::Set(d, f.keep_v);
  const VF minus_rate = hn::Set(d, -f.rate), root = hn::Set(d, f.root), eps = hn::Set(d, f.eps);
  EachVector(count, [&](auto load, auto store) HWY_ATTR {
    const VF p = load(param), old_m = load(m), old_v = load(v);
    const VF g = Fma(decay, p, hn::Mul(load(grad), scale));
    const VF new_m = Fma(keep_m, hn::Sub(g, old_m), old_m);
    const VF new_v = Fma(keep_v, Fma(g, g, hn::Neg(old_v)), old_v);
    const VF denominator = Fma(hn::Sqrt(new_v), root, eps);
    store(new_m, m);
    store(new_v, v);
    store(Fma(minus_rate, hn::Div(new_m, denominator), hn::Mul(p, shrink)), param);
  });
}

void sgd_range(const SgdStep& step, const float* grad, float* param, float* m, size_t count) {
  const SgdFactors f(step);
  const DF d;
  const VF scale = hn::Set(d, f.grad_scale), decay = hn::Set(d, f.decay);
  const VF minus_lr = hn::Set(d, -f.lr), momentum = hn::Set(d, f.momentum);
  const bool first = step.first, nesterov = step.nesterov;
  EachVector(count, [&](auto load, auto store) HWY_ATTR {
    const VF p = load(param);
    const VF g = Fma(decay, p, hn::Mul(load(grad), scale));
    VF move = g;
    if (m != nullptr) {
      const VF moment = first ? g : Fma(momentum, load(m), g);
      store(moment, m);
      move = nesterov ? Fma(momentum, moment, g) : moment;
    }
    store(Fma(minus_lr, move, p), param);
  });
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);

constexpr size_t kGrain = 4096;  // floats: a cut inside a cache line would be shared by two threads
}  // namespace

void adam_update(const AdamStep& step, const float* grad, float* param, float* m, float* v, size_t count,
                 ThreadPool& pool) {
  pool.parallel_for(count, kGrain, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(adam_range)(step, grad + begin, param + begin, m + begin, v + begin, end - begin);
  });
}

void sgd_update(const SgdStep& step, const float* grad, float* param, float* m, size_t count,
                ThreadPool& pool) {
  pool.parallel_for(count, kGrain, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(sgd_range)
    (step, grad + begin, param + begin, m == nullptr ? nullptr : m + begin, end - begin);
  });
}

void sum_squares_blocks(const float* a, size_t count, float* sums, ThreadPool& pool) {
  pool.parallel_for((count + kNormBlock - 1) / kNormBlock, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      sums[i] = sum_squares(a + i * kNormBlock, std::min(kNormBlock, count - i * kNormBlock));
  });
}

void add_to(const float* a, float* sum, size_t count, ThreadPool& pool) {
  pool.parallel_for(count, kGrain,
                    [&](size_t begin, size_t end) { add(a + begin, sum + begin, sum + begin, end - begin); });
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
