#include <cmath>
#include <vector>

#include "kernels/norm/norm_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/batch_norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void run_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y, ThreadPool&) {
  ref::batch_norm_forward(norm, x, mean, variance, y);
}
void run_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance, float* y,
               ThreadPool&) {
  ref::batch_norm_apply(norm, x, mean, variance, y);
}
void run_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                  const float* dy, float* dx, float* dweight, float* dbias, bool accumulate, ThreadPool&) {
  ref::batch_norm_backward(norm, x, mean, variance, dy, dx, dweight, dbias, accumulate);
}

#else
namespace {

// Rows [begin, end) of y = fma(x - mean, factor, bias).
HWY_NOINLINE void ApplyRows(const BatchNorm& norm, const float* x, const float* mean, const float* factor,
                            const float* bias, float* y, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t at = row * norm.channels;
    Map([](VF v, VF m, VF f, VF b) HWY_ATTR { return Fma(hn::Sub(v, m), f, b); }, y + at, norm.channels,
        x + at, mean, factor, bias);
  }
}

// The floats of each channel that the gradient to x needs.
struct ChannelFactors {
  const float *mean, *inverse, *factor, *along, *total;  // along and total divided by the rows
};
HWY_NOINLINE void GradientRows(const BatchNorm& norm, const float* x, const float* dy, float* dx,
                               const ChannelFactors& c, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t at = row * norm.channels;
    Map(
        [](VF v, VF d, VF mean, VF inverse, VF factor, VF along, VF total) HWY_ATTR {
          const VF unit = hn::Mul(hn::Sub(v, mean), inverse);
          return hn::Mul(factor, Fma(hn::Neg(unit), along, hn::Sub(d, total)));
        },
        dx + at, norm.channels, x + at, dy + at, c.mean, c.inverse, c.factor, c.along, c.total);
  }
}

// Rows per piece of work: a few thousand floats.
size_t Grain(const BatchNorm& norm) { return 8192 / std::max<size_t>(norm.channels, 1) + 1; }

}  // namespace

void run_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance, float* y,
               ThreadPool& pool) {
  std::vector<float> factor(norm.channels), zeros(norm.bias == nullptr ? norm.channels : 0);
  for (size_t j = 0; j < norm.channels; ++j)
    factor[j] = (norm.weight == nullptr ? 1.0f : norm.weight[j]) / std::sqrt(variance[j] + norm.eps);
  const float* bias = norm.bias == nullptr ? zeros.data() : norm.bias;
  pool.parallel_for(norm.rows, Grain(norm), [&](size_t begin, size_t end) {
    ApplyRows(norm, x, mean, factor.data(), bias, y, begin, end);
  });
}

void run_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y,
                 ThreadPool& pool) {
  const auto n = static_cast<float>(norm.rows);
  const size_t channels = norm.channels;
  float* const means[1] = {mean};
  ColumnBlocks<1>(pool, norm.rows, channels, false, means,
                  [x, channels](VF* acc, size_t row, size_t col, auto load)
                      HWY_ATTR { acc[0] = hn::Add(acc[0], load(x + row * channels + col)); });
  for (size_t j = 0; j < channels; ++j) mean[j] = mean[j] / n;
  float* const variances[1] = {variance};
  ColumnBlocks<1>(pool, norm.rows, channels, false, variances,
                  [x, channels, mean](VF* acc, size_t row, size_t col, auto load) HWY_ATTR {
                    const VF centred = hn::Sub(load(x + row * channels + col), load(mean + col));
                    acc[0] = Fma(centred, centred, acc[0]);
                  });
  for (size_t j = 0; j < channels; ++j) variance[j] = variance[j] / n;
  run_apply(norm, x, mean, variance, y, pool);
}

void run_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                  const float* dy, float* dx, float* dweight, float* dbias, bool accumulate,
                  ThreadPool& pool) {
  const auto n = static_cast<float>(norm.rows);
  const size_t channels = norm.channels;
  std::vector<float> inverse(channels), factor(channels), along(channels), total(channels);
  for (size_t j = 0; j < channels; ++j) {
    inverse[j] = 1.0f / std::sqrt(variance[j] + norm.eps);
    factor[j] = norm.weight == nullptr ? inverse[j] : norm.weight[j] * inverse[j];
  }
  float* const sums[2] = {along.data(), total.data()};
  const float* inverses = inverse.data();
  ColumnBlocks<2>(pool, norm.rows, channels, false, sums,
                  [=](VF* acc, size_t row, size_t col, auto load) HWY_ATTR {
                    const VF d = load(dy + row * channels + col);
                    const VF centred = hn::Sub(load(x + row * channels + col), load(mean + col));
                    acc[0] = Fma(d, hn::Mul(centred, load(inverses + col)), acc[0]);
                    acc[1] = hn::Add(acc[1], d);
                  });
  for (size_t j = 0; j < channels; ++j) {
    if (dweight != nullptr) dweight[j] = accumulate ? dweight[j] + along[j] : along[j];
    if (dbias != nullptr) dbias[j] = accumulate ? dbias[j] + total[j] : total[j];
    along[j] = along[j] / n;
    total[j] = total[j] / n;
  }
  if (dx == nullptr) return;
  const ChannelFactors factors{mean, inverse.data(), factor.data(), along.data(), total.data()};
  pool.parallel_for(norm.rows, Grain(norm),
                    [&](size_t begin, size_t end) { GradientRows(norm, x, dy, dx, factors, begin, end); });
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_forward);
HWY_EXPORT(run_apply);
HWY_EXPORT(run_backward);
}  // namespace

void batch_norm_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y,
                        ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_forward)(norm, x, mean, variance, y, pool);
}
void batch_norm_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                      float* y, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_apply)(norm, x, mean, variance, y, pool);
}
void batch_norm_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                         const float* dy, float* dx, float* dweight, float* dbias, bool accumulate,
                         ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_backward)
  (norm, x, mean, variance, dy, dx, dweight, dbias, accumulate, pool);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
