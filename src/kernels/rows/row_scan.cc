#include "kernels/rows/row_scan.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/row_scan.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

bool block_maxima(const float* row, size_t count, size_t block, float* maxima) {
  return ref::block_maxima(row, count, block, maxima);
}
size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices) {
  return ref::collect_between(row, count, first, least, below, values, indices);
}
void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out) {
  ref::keep_allowed(row, count, allowed, out);
}

#else

float Largest(VF v) {
  alignas(64) float lanes[kVF];
  hn::Store(v, DF(), lanes);
  float largest = lanes[0];
  for (size_t p = 1; p < kVF; ++p) largest = lanes[p] > largest ? lanes[p] : largest;
  return largest + 0.0f;  // -0 becomes +0: which of the two stood first must not show
}

bool block_maxima(const float* row, size_t count, size_t block, float* maxima) {
  const DF d;
  const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto numbers = hn::Eq(lowest, lowest);  // only NaNs are not equal to themselves
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = HWY_MIN(begin + block, count);
    VF even = lowest, odd = lowest;
    size_t i = begin;
    for (; i + 2 * kVF <= end; i += 2 * kVF) {
      const VF x = hn::LoadU(d, row + i), y = hn::LoadU(d, row + i + kVF);
      even = KeepLarger(even, x);
      odd = KeepLarger(odd, y);
      numbers = hn::And(numbers, hn::And(hn::Eq(x, x), hn::Eq(y, y)));
    }
    for (size_t size; i < end; i += size) {
      size = HWY_MIN(kVF, end - i);
      const VF x = size == kVF ? hn::LoadU(d, row + i) : LoadTail(row + i, size);
      even = KeepLarger(even, hn::IfThenElse(hn::FirstN(d, size), x, lowest));
      numbers = hn::And(numbers, hn::Eq(x, x));
    }
    *maxima++ = Largest(KeepLarger(even, odd));
  }
  return hn::AllTrue(d, numbers);
}

size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices) {
  const DF d;
  const DI di;
  const VF from = hn::Set(d, least), to = hn::Set(d, below);
  VI index = hn::Iota(di, first);
  const VI step = hn::Set(di, static_cast<int32_t>(kVF));
  size_t found = 0, i = 0;
  // Four vectors at a time: whether there is anything in one alone is hard to predict.
  for (; i + 4 * kVF <= count; i += 4 * kVF) {
    const VF x[] = {hn::LoadU(d, row + i), hn::LoadU(d, row + i + kVF), hn::LoadU(d, row + i + 2 * kVF),
                    hn::LoadU(d, row + i + 3 * kVF)};
    const auto between = [&](VF v) HWY_ATTR { return hn::And(hn::Ge(v, from), hn::Lt(v, to)); };
    const hn::Mask<DF> in[] = {between(x[0]), between(x[1]), between(x[2]), between(x[3])};
    if (hn::AllFalse(d, hn::Or(hn::Or(in[0], in[1]), hn::Or(in[2], in[3])))) {
      index = hn::Add(index, hn::ShiftLeft<2>(step));
      continue;
    }
    BF_UNROLL
    for (size_t p = 0; p < 4; ++p) {
      // Whole vectors are written, no further than to where the row has been read: compressing stores are
      // slower.
      hn::StoreU(hn::Compress(x[p], in[p]), d, values + found);
      hn::StoreU(hn::Compress(index, hn::RebindMask(di, in[p])), di, indices + found);
      found += hn::CountTrue(d, in[p]);
      index = hn::Add(index, step);
    }
  }
  for (; i < count; ++i) {
    if (!(row[i] >= least && row[i] < below)) continue;
    values[found] = row[i];
    indices[found++] = first + static_cast<int32_t>(i);
  }
  return found;
}

void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out) {
  const DF d;
  const DI di;
  const VF never = hn::Set(d, -std::numeric_limits<float>::infinity());
  const VI lane = hn::Shl(hn::Set(di, 1), hn::Iota(di, 0));
  const auto keep = [&](size_t i, VF x) HWY_ATTR {
    const auto bits = static_cast<int32_t>(allowed[i / 64] >> i % 64);
    const auto in = hn::Ne(hn::And(hn::Set(di, bits), lane), hn::Zero(di));
    return hn::IfThenElse(hn::RebindMask(d, in), x, never);
  };
  size_t i = 0;
  for (; i + kVF <= count; i += kVF) hn::StoreU(keep(i, hn::LoadU(d, row + i)), d, out + i);
  if (i < count) StoreTail(keep(i, LoadTail(row + i, count - i)), out + i, count - i);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(block_maxima);
HWY_EXPORT(collect_between);
HWY_EXPORT(keep_allowed);
}  // namespace

bool block_maxima(const float* row, size_t count, size_t block, float* maxima) {
  return HWY_DYNAMIC_DISPATCH(block_maxima)(row, count, block, maxima);
}
size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(collect_between)(row, count, first, least, below, values, indices);
}
void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out) {
  HWY_DYNAMIC_DISPATCH(keep_allowed)(row, count, allowed, out);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
