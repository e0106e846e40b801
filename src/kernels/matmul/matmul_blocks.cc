// A row of weights is unpacked to bytes once and multiplied with every activation row.
#include "kernels/matmul/matmul_blocks.h"

#include <vector>

#include "kernels/panels/pack_table.h"
#include "kernels/quant/quant.h"
#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/add_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/matmul_blocks.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void block_rows(DType dtype, const MatmulJob& job) { ref::matmul_rows(dtype, job); }
#else

// scale * sum(q * a) over 16 values, left in four 32-bit lanes.
using D4 = hn::CappedTag<int32_t, 4>;
HWY_INLINE hn::Vec<D4> GroupOf16(const int8_t* q, const int8_t* a, int32_t scale) {
  const hn::CappedTag<int8_t, 8> d8;
  const hn::CappedTag<int16_t, 8> d16;
  const D4 d32;
  const hn::Half<decltype(d16)> dh;
  auto sum = hn::Zero(d32);
  for (size_t half = 0; half < 16; half += 8) {
    // |q * a| <= 128 * 127 fits 16 bits.
    const auto product =
        hn::Mul(hn::PromoteTo(d16, hn::LoadU(d8, q + half)), hn::PromoteTo(d16, hn::LoadU(d8, a + half)));
    sum = hn::Add(sum, hn::Add(hn::PromoteTo(d32, hn::LowerHalf(dh, product)),
                               hn::PromoteTo(d32, hn::UpperHalf(dh, product))));
  }
  return hn::Mul(sum, hn::Set(d32, scale));
}

void block_rows(DType dtype, const MatmulJob& job) {
  const DTypeInfo& info = dtype_info(dtype);
  const QuantType& type = quant_type(dtype);
  const ActKind kind = act_kind(dtype);
  const ActLayout layout = act_layout(kind, job.cols);
  const size_t blocks = job.cols / info.block_values;
  const size_t row_bytes = job.panel_bytes / kPanelRows;
  const size_t groups = info.block_values / type.group_values;
  std::vector<IntBlock> weights(blocks);

  const size_t row_end = std::min(job.rows, job.panel_end * kPanelRows);
  for (size_t row = job.panel_begin * kPanelRows; row < row_end; ++row) {
    for (size_t b = 0; b < blocks; ++b)
      type.unpack(job.panels + row * row_bytes + b * info.block_bytes, &weights[b]);
    for (size_t m = 0; m < job.m; ++m) {
      const std::byte* act = job.acts + m * job.act_stride;
      const auto* a = reinterpret_cast<const int8_t*>(act);
      const auto* d = reinterpret_cast<const float*>(act + layout.scales_offset);
      const auto* sums = reinterpret_cast<const int16_t*>(act + layout.sums_offset);
      float shard_sums[kShardsMax];
      for (ShardWalk walk(job.cuts); walk; walk.next()) {
        float acc = 0;
        for (size_t b = walk.begin() / info.block_values; b < walk.end() / info.block_values; ++b) {
          const IntBlock& w = weights[b];
          auto lanes = hn::Zero(D4());
          int32_t mins = 0;
          for (size_t g = 0; g < groups; ++g) {
            for (size_t i = g * type.group_values; i < (g + 1) * type.group_values; i += 16) {
              const size_t at = b * info.block_values + i;
              lanes = hn::Add(lanes, GroupOf16(w.q + i, a + at, w.scale[g]));
              mins += w.min[g] * sums[at / 16];
            }
          }
          const int32_t sum = hn::GetLane(hn::SumOfLanes(D4(), lanes));
          acc = add_block(acc, sum, mins, w, type.has_min, d[b]);
        }
        shard_sums[walk.shard()] = acc;
        if (!walk.last()) continue;
        job.y[m * job.y_stride + walk.subtree() * job.subtree_stride + row] =
            ref::shard_tree({shard_sums, walk.shards()});
      }
    }
  }
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(block_rows);
void matmul_blocks(DType dtype, const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(block_rows)(dtype, job); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
