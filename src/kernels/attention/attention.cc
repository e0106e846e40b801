#include "kernels/attention/attention.h"

#include "base/check.h"
#include "kernels/attention/attention_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention/attention_page-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

void attend_all(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
                const AttentionQuery* queries, size_t count, std::byte* scratch) {
#if HWY_TARGET == HWY_SCALAR
  ref::attend(layout, params, pages, queries, count, scratch);
#else
  const JoinPage join = layout.dtype == DType::kF32   ? JoinPageF32
                        : layout.dtype == DType::kF16 ? JoinPageF16
                                                      : JoinPageQ8_0;
  walk_pages(join, layout, params, pages, queries, count, scratch);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(attend_all);

void attend(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
            const AttentionQuery* queries, size_t count, std::byte* scratch) {
  BF_DCHECK(count <= kQueriesMax && kv_why_not(layout) == nullptr) << count;
  HWY_DYNAMIC_DISPATCH(attend_all)(layout, params, pages, queries, count, scratch);
}
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
