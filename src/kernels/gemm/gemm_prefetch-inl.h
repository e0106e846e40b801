// Prefetches memory that tiles will need soon, while they compute (gemm_tile-inl.h).
//
// Little by little, some lines every kPrefetchSteps steps: all at once they would fill the queue of misses,
// and the tile would wait for them.
#if defined(BUTTERFLY_KERNELS_GEMM_PREFETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_GEMM_PREFETCH_INL_H_
#undef BUTTERFLY_KERNELS_GEMM_PREFETCH_INL_H_
#else
#define BUTTERFLY_KERNELS_GEMM_PREFETCH_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

inline constexpr size_t kPrefetchSteps = 32;   // steps of a tile between two rounds
inline constexpr size_t kPrefetchFloats = 32;  // two lines

// Rows at a fixed distance, and rows given by pointers.
struct StridedRows {
  const float* row = nullptr;
  size_t stride = 0;
  HWY_INLINE const float* First() const { return row; }
  HWY_INLINE void Next() { row += stride; }
};
struct ListedRows {
  const float* const* row = nullptr;
  ptrdiff_t offset = 0;
  HWY_INLINE const float* First() const { return *row + offset; }
  HWY_INLINE void Next() { ++row; }
};

// Pieces of kPrefetchFloats each round, for `pieces` of them during `steps` steps.
HWY_INLINE size_t PaceOf(size_t pieces, size_t steps) {
  const size_t rounds = std::max<size_t>(steps / kPrefetchSteps, 1);
  return (pieces + rounds - 1) / rounds;
}

// The first `width` floats of `count` rows.
template <class Rows>
struct PrefetchRows {
  Rows rows = {};
  size_t count = 0, width = 0;
  size_t pace = 1;
  // Into the first cache. Else the second: what a tile reads usually fills the first.
  bool near = false;
  size_t column = 0;

  // At the pace that prefetches everything during `steps` steps.
  HWY_INLINE PrefetchRows Within(size_t steps) const {
    PrefetchRows result = *this;
    result.pace = PaceOf(count * ((width + kPrefetchFloats - 1) / kPrefetchFloats), steps);
    return result;
  }
  HWY_INLINE void Touch(const float* at) const {
    if (near) {
      __builtin_prefetch(at, 0, 3);
      __builtin_prefetch(at + 16, 0, 3);
    } else {
      __builtin_prefetch(at, 0, 2);
      __builtin_prefetch(at + 16, 0, 2);
    }
  }
  HWY_INLINE void Step() {
    if (width <= kPrefetchFloats) {  // one piece a row: few branches to foretell
      const size_t now = std::min(pace, count);
      count -= now;
      for (size_t i = 0; i < now; ++i, rows.Next()) Touch(rows.First());
      return;
    }
    for (size_t i = 0; i < pace && count != 0; ++i) {
      Touch(rows.First() + column);
      column += kPrefetchFloats;
      if (column < width) continue;
      column = 0;
      rows.Next();
      --count;
    }
  }
};

// What a tile prefetches: outputs of the next one, and what is packed or read after it.
template <class Rows>
struct TilePrefetch {
  PrefetchRows<Rows> outputs = {}, operand = {}, other = {};
  HWY_INLINE void Step() {
    outputs.Step();
    operand.Step();
    other.Step();
  }
};

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
