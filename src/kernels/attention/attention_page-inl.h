// The pieces of attention on one target, one file each: how a page joins the sums of its queries.
//
// They are functions with a name and not inlined into each other: each is a loop long enough to hide a call,
// and one file with all of it took GCC minutes to compile with the sanitizers.
#if defined(BUTTERFLY_KERNELS_ATTENTION_PAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_ATTENTION_PAGE_INL_H_
#undef BUTTERFLY_KERNELS_ATTENTION_PAGE_INL_H_
#else
#define BUTTERFLY_KERNELS_ATTENTION_PAGE_INL_H_
#endif

#include "kernels/attention/attention_block.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

inline constexpr size_t kBlockVectors = kKvPage / kVF;  // vectors of 32 scores

// Calls run<kQ>(m) for groups of queries that go through a page together: what is made of a key or a value is
// shared by the group. The registers of narrow vectors hold two.
template <class Run>
HWY_INLINE void WithQueries(size_t count, const Run& run) {
  constexpr size_t kMany = HWY_TARGET == HWY_AVX3_DL ? 8 : 2;
  size_t m = 0;
  for (; m + kMany <= count; m += kMany) run.template operator()<kMany>(m);
  if constexpr (kMany > 2) {
    switch (count - m) {
      case 7:
        return run.template operator()<7>(m);
      case 6:
        return run.template operator()<6>(m);
      case 5:
        return run.template operator()<5>(m);
      case 4:
        return run.template operator()<4>(m);
      case 3:
        return run.template operator()<3>(m);
      case 2:
        return run.template operator()<2>(m);
      default:
        break;
    }
  }
  if (m < count) run.template operator()<1>(m);
}

inline constexpr size_t kWeighMax = 8;  // queries per Weigh()
// Turns the scores of `count` queries into weights; `factors` is what each one's earlier sums shrink by.
void Weigh(const AttentionParams& params, AttentionState* states, size_t count, KeyRange keys,
           float (*scores)[kKvPage], float* factors);

// One page for `count` queries that see the same keys of it; keys is not empty.
void JoinPageF32(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                 size_t count, KeyRange keys, std::byte* wide);
void JoinPageF16(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                 size_t count, KeyRange keys, std::byte* wide);
void JoinPageQ8_0(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                  size_t count, KeyRange keys, std::byte* wide);
// The same for a latent page whose keys stand as floats in `wide` already; `floats` is its wide() layout.
void JoinLatent(const KvLayout& floats, const AttentionParams& params, AttentionState* states, size_t count,
                KeyRange keys, std::byte* wide);

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
