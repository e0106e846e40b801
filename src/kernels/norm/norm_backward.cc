#include "kernels/norm/norm_backward.h"

#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm_backward.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/column_blocks-inl.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void run_layer_norm(const NormGradient& job, ThreadPool&) { ref::layer_norm_backward(job); }
void run_rms_norm(const NormGradient& job, ThreadPool&) { ref::rms_norm_backward(job); }
void run_column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out,
                     ThreadPool&) {
  ref::column_sums(x, rows, cols, stride, accumulate, out);
}

#else
namespace {

// Mean and factor of every row; rms_norm has no mean.
struct RowStats {
  std::vector<float> mean, scale;
  explicit RowStats(size_t rows) : mean(rows), scale(rows) {}
};

HWY_NOINLINE void LayerStats(const NormGradient& job, size_t row, RowStats& stats) {
  const float* x = job.x + job.row_begin(row);
  const auto n = static_cast<float>(job.cols);
  stats.mean[row] = SumLanes([](VF lane, VF v) HWY_ATTR { return hn::Add(lane, v); }, job.cols, x) / n;
  const VF mean = hn::Set(DF(), stats.mean[row]);
  const float squares = SumLanes(
      [mean](VF lane, VF v) HWY_ATTR {
        const VF centred = hn::Sub(v, mean);
        return Fma(centred, centred, lane);
      },
      job.cols, x);
  stats.scale[row] = 1.0f / std::sqrt(squares / n + job.eps);
}

// Calls f(dy * weight as function of the loaded vectors) with or without weights.
template <class F>
HWY_INLINE void WithWeight(const NormGradient& job, const float* dy, const float* x, F f) {
  if (job.weight != nullptr) {
    f([](VF d, VF w) HWY_ATTR { return hn::Mul(d, w); }, dy, x, job.weight);
  } else {
    f([](VF d) HWY_ATTR { return d; }, dy, x);
  }
}

HWY_NOINLINE void LayerRow(const NormGradient& job, size_t row, const RowStats& stats) {
  const auto n = static_cast<float>(job.cols);
  const VF mean = hn::Set(DF(), stats.mean[row]), s = hn::Set(DF(), stats.scale[row]);
  const auto unit = [mean, s](VF v) HWY_ATTR { return hn::Mul(hn::Sub(v, mean), s); };
  float* dx = job.dx + job.row_begin(row);
  WithWeight(
      job, job.dy + job.row_begin(row), job.x + job.row_begin(row),
      [&](auto g, const float* dy, const float* x, auto... weight) HWY_ATTR {
        const VF mean_g = hn::Set(
            DF(), SumLanes([g](VF lane, VF d, auto... w) HWY_ATTR { return hn::Add(lane, g(d, w...)); },
                           job.cols, dy, weight...) /
                      n);
        const VF mean_gx = hn::Set(DF(), SumLanes([g, unit](VF lane, VF d, VF v, auto... w)
                                                      HWY_ATTR { return Fma(g(d, w...), unit(v), lane); },
                                                  job.cols, dy, x, weight...) /
                                             n);
        Map([=](VF d, VF v, auto... w)
                HWY_ATTR { return hn::Mul(s, Fma(hn::Neg(unit(v)), mean_gx, hn::Sub(g(d, w...), mean_g))); },
            dx, job.cols, dy, x, weight...);
      });
}

HWY_NOINLINE void RmsRow(const NormGradient& job, size_t row, const RowStats& stats) {
  const auto n = static_cast<float>(job.cols);
  const float scale = stats.scale[row];
  const VF s = hn::Set(DF(), scale);
  float* dx = job.dx + job.row_begin(row);
  WithWeight(job, job.dy + job.row_begin(row), job.x + job.row_begin(row),
             [&](auto g, const float* dy, const float* x, auto... weight) HWY_ATTR {
               const VF along = hn::Set(DF(), SumLanes([g](VF lane, VF d, VF v, auto... w)
                                                           HWY_ATTR { return Fma(g(d, w...), v, lane); },
                                                       job.cols, dy, x, weight...) /
                                                  n * (scale * scale * scale));
               Map([=](VF d, VF v, auto... w)
                       HWY_ATTR { return Fma(hn::Neg(v), along, hn::Mul(s, g(d, w...))); },
                   dx, job.cols, dy, x, weight...);
             });
}

// dweight and dbias; `unit(row, v)` is what dweight multiplies dy with.
template <class Unit>
HWY_INLINE void ParameterGradients(const NormGradient& job, ThreadPool& pool, Unit unit) {
  if (job.dweight == nullptr && job.dbias == nullptr) return;
  float* const totals[2] = {job.dweight, job.dbias};
  ColumnBlocks<2>(pool, job.rows, job.cols, job.accumulate, totals,
                  [&job, unit](VF* acc, size_t row, size_t col, auto load) HWY_ATTR {
                    const VF d = load(job.dy + job.row_begin(row) + col);
                    acc[0] = Fma(d, unit(row, load(job.x + job.row_begin(row) + col)), acc[0]);
                    acc[1] = hn::Add(acc[1], d);
                  });
}

}  // namespace

void run_layer_norm(const NormGradient& job, ThreadPool& pool) {
  RowStats stats(job.rows);
  pool.parallel_for(job.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) LayerStats(job, row, stats);
  });
  const float* means = stats.mean.data();
  const float* scales = stats.scale.data();
  ParameterGradients(job, pool, [means, scales](size_t row, VF v) HWY_ATTR {
    return hn::Mul(hn::Sub(v, hn::Set(DF(), means[row])), hn::Set(DF(), scales[row]));
  });
  if (job.dx == nullptr) return;
  pool.parallel_for(job.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) LayerRow(job, row, stats);
  });
}

void run_rms_norm(const NormGradient& job, ThreadPool& pool) {
  RowStats stats(job.rows);
  pool.parallel_for(job.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      stats.scale[row] =
          1.0f / std::sqrt(SumSquares(job.x + job.row_begin(row), job.cols) / static_cast<float>(job.cols) +
                           job.eps);
  });
  const float* scales = stats.scale.data();
  ParameterGradients(job, pool,
                     [scales](size_t row, VF v) HWY_ATTR { return hn::Mul(v, hn::Set(DF(), scales[row])); });
  if (job.dx == nullptr) return;
  pool.parallel_for(job.rows, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) RmsRow(job, row, stats);
  });
}

void run_column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out,
                     ThreadPool& pool) {
  float* const totals[1] = {out};
  ColumnBlocks<1>(pool, rows, cols, accumulate, totals,
                  [x, stride](VF* acc, size_t row, size_t col, auto load)
                      HWY_ATTR { acc[0] = hn::Add(acc[0], load(x + row * stride + col)); });
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_layer_norm);
HWY_EXPORT(run_rms_norm);
HWY_EXPORT(run_column_sums);
}  // namespace

void layer_norm_backward(const NormGradient& job, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_layer_norm)(job, pool);
}
void rms_norm_backward(const NormGradient& job, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_rms_norm)(job, pool);
}
void column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out,
                 ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_column_sums)(x, rows, cols, stride, accumulate, out, pool);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
