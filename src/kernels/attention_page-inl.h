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

#include "kernels/attention_block.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

inline constexpr size_t kBlockVectors = kKvPage / kVF;  // vectors of 32 scores

inline constexpr size_t kWeighMax = 8;  // queries per Weigh()
// Turns the scores of `count` queries into weights; `factors` is what each one's earlier sums shrink by.
void Weigh(const AttentionParams& params, AttentionState* states, size_t count, KeyRange keys,
           float (*scores)[kKvPage], float* factors);

// One page for `count` queries that see the same keys of it; keys is not empty.
void JoinPageF32(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                 AttentionState* states, size_t count, KeyRange keys, std::byte* wide);
void JoinPageF16(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                 AttentionState* states, size_t count, KeyRange keys, std::byte* wide);
void JoinPageQ8_0(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                  AttentionState* states, size_t count, KeyRange keys, std::byte* wide);

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
