#include "kernels/rows/cross_entropy.h"

#include <algorithm>

#include "kernels/math/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/cross_entropy.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

float loss_row(const float* x, size_t vocab, int32_t target) {
  float loss = 0;
  ref::cross_entropy(x, 1, vocab, &target, &loss);
  return loss;
}
float gradient_row(float* x, size_t vocab, int32_t target, float grad) {
  float loss = 0;
  ref::cross_entropy_backward(x, 1, vocab, &target, grad, &loss);
  return loss;
}

#else

float loss_row(const float* x, size_t vocab, int32_t target) {
  if (target < 0) return 0;
  const float top = MaxValue(x, vocab);
  const VF shift = hn::Set(DF(), top);
  const float total =
      SumLanes([shift](VF lane, VF v) HWY_ATTR { return hn::Add(lane, Exp(hn::Sub(v, shift))); }, vocab, x);
  return log_f32(total) - (x[target] - top);
}

float gradient_row(float* x, size_t vocab, int32_t target, float grad) {
  if (target < 0) {
    std::fill_n(x, vocab, 0.0f);
    return 0;
  }
  const float top = MaxValue(x, vocab), hit = x[target] - top;
  const VF shift = hn::Set(DF(), top);
  Map([shift](VF v) HWY_ATTR { return Exp(hn::Sub(v, shift)); }, x, vocab, x);
  const float total = SumLanes([](VF lane, VF v) HWY_ATTR { return hn::Add(lane, v); }, vocab, x);
  const VF factor = hn::Set(DF(), grad / total);
  Map([factor](VF v) HWY_ATTR { return hn::Mul(v, factor); }, x, vocab, x);
  x[target] -= grad;
  return log_f32(total) - hit;
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(loss_row);
HWY_EXPORT(gradient_row);
}  // namespace

void cross_entropy_backward(float* logits, size_t rows, size_t vocab, const int32_t* targets, float grad,
                            float* losses, ThreadPool& pool) {
  pool.parallel_for(rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      losses[row] = HWY_DYNAMIC_DISPATCH(gradient_row)(logits + row * vocab, vocab, targets[row], grad);
  });
}

void cross_entropy(const float* logits, size_t rows, size_t vocab, const int32_t* targets, float* losses,
                   ThreadPool& pool) {
  pool.parallel_for(rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      losses[row] = HWY_DYNAMIC_DISPATCH(loss_row)(logits + row * vocab, vocab, targets[row]);
  });
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
