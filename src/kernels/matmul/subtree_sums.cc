#include "kernels/matmul/subtree_sums.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/subtree_sums.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"
#include "kernels/tiles/shards-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void finish_tree(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                 size_t end) {
  ref::sum_subtrees(parts, m, y, y_stride, begin, end);
}
#else

// A part joins those before it while the last two subtrees that wait are as large as each other.
void finish_tree(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                 size_t end) {
  size_t folds[kShardsMax];
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto [first, count] = parts[i].subtree;
    folds[i] = static_cast<size_t>(std::countr_one(first / count));
  }
  for (size_t row = 0; row < m; ++row)
    for (size_t at = begin; at < end; at += kVF) {
      const size_t count = end - at;
      VF waiting[kShardsMax];
      size_t top = 0;
      for (size_t i = 0; i < parts.size(); ++i) {
        const float* from = parts[i].rows + row * parts[i].stride + at;
        waiting[top++] = count >= kVF ? hn::LoadU(DF(), from) : LoadTail(from, count);
        for (size_t fold = 0; fold < folds[i]; ++fold) {
          --top;
          waiting[top - 1] = hn::Add(waiting[top - 1], waiting[top]);
        }
      }
      const VF sum = TreeResult(waiting[0]);
      float* to = y + row * y_stride + at;
      if (count >= kVF) {
        hn::StoreU(sum, DF(), to);
      } else {
        StoreTail(sum, to, count);
      }
    }
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(finish_tree);

// Subtrees that stand side by side from shard 0 on, and end where a tree does.
void expect_whole(std::span<const SubtreeSums> parts) {
  size_t next = 0;
  for (const SubtreeSums& part : parts) {
    const auto [first, count] = part.subtree;
    BF_CHECK(first == next && std::has_single_bit(count) && first % count == 0)
        << "shards " << first << " to " << first + count << " behind " << next;
    next += count;
  }
  BF_CHECK(std::has_single_bit(next) && next <= kShardsMax) << next << " shards";
}
}  // namespace

void sum_subtrees(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                  size_t end) {
  expect_whole(parts);
  if (parts.size() == 1) {  // the whole tree: nothing to add
    for (size_t row = 0; row < m; ++row)
      std::copy(parts[0].rows + row * parts[0].stride + begin, parts[0].rows + row * parts[0].stride + end,
                y + row * y_stride + begin);
    return;
  }
  HWY_DYNAMIC_DISPATCH(finish_tree)(parts, m, y, y_stride, begin, end);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
