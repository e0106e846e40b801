#include "kernels/gemm/gemm_few.h"

#include <algorithm>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_few.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm/epilogue-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void few_columns(const Gemm& job, size_t begin, size_t end) {
  Gemm part = job;
  part.n = end - begin;
  part.b.data += begin * (job.b.transposed ? job.b.stride : 1);
  part.c += begin;
  if (job.epilogue.bias != nullptr) part.epilogue.bias += begin;
  if (job.epilogue.before != nullptr) part.epilogue.before += begin;
  ref::gemm(part);
}
#else
namespace {

// ---- B transposed, rows of k: kVF columns by four steps are transposed in registers, then four FMAs per row
// of A. Groups of columns go side by side, so that there are chains enough.
inline constexpr size_t kTransposedGroups = HWY_TARGET == HWY_SSE4 ? 1 : 4;

template <size_t kRows, size_t kGroups>
HWY_INLINE void TransposedColumns(const Gemm& job, size_t column) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  VF acc[kRows][kGroups];
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t g = 0; g < kGroups; ++g)
    acc[m][g] = job.accumulate ? hn::LoadU(d, job.c + m * job.c_stride + column + g * kVF) : hn::Zero(d);
  const float* b = job.b.data + column * job.b.stride;
  const auto row = [&](size_t r) HWY_ATTR { return b + r * job.b.stride; };
  size_t k = 0;
  // A whole cache line of each column at a time: many columns may share a set of the first cache.
  for (; k + 16 <= job.k; k += 16) BF_UNROLL
  for (size_t g = 0; g < kGroups; ++g)
    for (size_t four = k; four < k + 16; four += 4) {
      const size_t first = g * kVF, last = first + kVF - 1;
      const VF v0 = LoadBlocks(row, first, last, four), v1 = LoadBlocks(row, first + 1, last, four);
      const VF v2 = LoadBlocks(row, first + 2, last, four), v3 = LoadBlocks(row, first + 3, last, four);
      const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, v0, v1));
      const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, v0, v1));
      const auto lo23 = hn::BitCast(dd, hn::InterleaveLower(d, v2, v3));
      const auto hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, v2, v3));
      const VF w[4] = {hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23)),
                       hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23)),
                       hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23)),
                       hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23))};
      BF_UNROLL
      for (size_t i = 0; i < 4; ++i) BF_UNROLL
      for (size_t m = 0; m < kRows; ++m) acc[m][g] = Fma(hn::Set(d, job.a.at(m, four + i)), w[i], acc[m][g]);
    }
  for (; k < job.k; ++k) BF_UNROLL
  for (size_t g = 0; g < kGroups; ++g) {
    alignas(64) float w[kVF];
    for (size_t r = 0; r < kVF; ++r) w[r] = row(g * kVF + r)[k];
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) acc[m][g] = Fma(hn::Set(d, job.a.at(m, k)), hn::Load(d, w), acc[m][g]);
  }
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t g = 0; g < kGroups; ++g) hn::StoreU(acc[m][g], d, job.c + m * job.c_stride + column + g * kVF);
}

// ---- B as it is: several rows of B at a time along the columns; sums rest in C in between.
inline constexpr size_t kStepsAtOnce = 8;

template <size_t kRows>
HWY_INLINE void StepRows(const Gemm& job, size_t k, size_t begin, size_t end) {
  const DF d;
  VF x[kRows][kStepsAtOnce];
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t i = 0; i < kStepsAtOnce; ++i) x[m][i] = hn::Set(d, job.a.at(m, k + i));
  const float* b = job.b.data + k * job.b.stride;
  for (size_t j = begin; j < end; j += kVF) {
    VF acc[kRows];
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) acc[m] = hn::LoadU(d, job.c + m * job.c_stride + j);
    BF_UNROLL
    for (size_t i = 0; i < kStepsAtOnce; ++i) {
      const VF w = hn::LoadU(d, b + i * job.b.stride + j);
      BF_UNROLL
      for (size_t m = 0; m < kRows; ++m) acc[m] = Fma(x[m][i], w, acc[m]);
    }
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) hn::StoreU(acc[m], d, job.c + m * job.c_stride + j);
  }
}

// One element; the last columns and steps. Continues from C.
HWY_INLINE void Element(const Gemm& job, size_t m, size_t j, size_t k0) {
  float* c = job.c + m * job.c_stride + j;
  VF acc = hn::Set(DF(), *c);
  for (size_t k = k0; k < job.k; ++k)
    acc = Fma(hn::Set(DF(), job.a.at(m, k)), hn::Set(DF(), job.b.at(k, j)), acc);
  *c = hn::GetLane(acc);
}

template <size_t kRows>
HWY_NOINLINE void Columns(const Gemm& job, size_t begin, size_t end) {
  if (!job.accumulate)
    for (size_t m = 0; m < kRows; ++m)
      std::fill(job.c + m * job.c_stride + begin, job.c + m * job.c_stride + end, 0.0f);
  size_t j = begin;
  if constexpr (kRows > kFewRowsTransposed) {
    BF_DCHECK(!job.b.transposed);
  } else if (job.b.transposed) {
    for (; j + kTransposedGroups * kVF <= end; j += kTransposedGroups * kVF)
      TransposedColumns<kRows, kTransposedGroups>(job, j);
    for (; j + kVF <= end; j += kVF) TransposedColumns<kRows, 1>(job, j);
    for (; j < end; ++j)
      for (size_t m = 0; m < kRows; ++m) Element(job, m, j, 0);
  }
  if (!job.b.transposed) {
    const size_t whole = begin + (end - begin) / kVF * kVF;
    size_t k = 0;
    for (; k + kStepsAtOnce <= job.k; k += kStepsAtOnce) StepRows<kRows>(job, k, begin, whole);
    for (size_t m = 0; m < kRows; ++m) {
      for (j = begin; k < job.k && j < whole; ++j) Element(job, m, j, k);
      for (j = whole; j < end; ++j) Element(job, m, j, 0);
    }
  }
  if (HasEffect(job.epilogue))
    for (size_t m = 0; m < kRows; ++m) {
      float* c = job.c + m * job.c_stride + begin;
      FinishRow(job.epilogue, c, begin, m * job.c_stride + begin, end - begin, c);
    }
}

}  // namespace

// Columns [begin, end).
void few_columns(const Gemm& job, size_t begin, size_t end) {
  static_assert(kFewRows == 8);
  if (job.m == 1) Columns<1>(job, begin, end);
  if (job.m == 2) Columns<2>(job, begin, end);
  if (job.m == 3) Columns<3>(job, begin, end);
  if (job.m == 4) Columns<4>(job, begin, end);
  if (job.m == 5) Columns<5>(job, begin, end);
  if (job.m == 6) Columns<6>(job, begin, end);
  if (job.m == 7) Columns<7>(job, begin, end);
  if (job.m == 8) Columns<8>(job, begin, end);
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(few_columns);
}  // namespace

void gemm_few_rows(const Gemm& job, ThreadPool* pool) {
  constexpr size_t kGrain = 64;               // columns: whole groups of the widest vectors
  constexpr size_t kThreadFloats = 64 << 10;  // of B that are worth waking other threads for
  if (job.m == 0 || job.n == 0) return;
  if (pool == nullptr || job.k * job.n < kThreadFloats)
    return HWY_DYNAMIC_DISPATCH(few_columns)(job, 0, job.n);
  pool->parallel_for(job.n, kGrain, [&](size_t begin, size_t end) {
    HWY_DYNAMIC_DISPATCH(few_columns)(job, begin, end);
  });
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
