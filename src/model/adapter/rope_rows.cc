#include "model/adapter/rope_rows.h"

#include <algorithm>

#include "base/error.h"

namespace butterfly::model {

Tensor rope_rows(const std::string& file, const LoraPair& pair, HfValues values, const ModelFile& base,
                 RopeRows to) {
  if (values != HfValues::kRopePairsQ && values != HfValues::kRopePairsKv) return pair.b;
  const std::string key = base.architecture() + ".attention.head_count";
  const uint32_t q_heads = base.metadata().u32(key);
  const auto kv_heads = static_cast<uint32_t>(base.metadata().u64_or(key + "_kv", q_heads));
  const int64_t heads = values == HfValues::kRopePairsQ ? q_heads : kv_heads;
  const int64_t rows = pair.b.size(0), rank = pair.b.size(1);
  if (heads == 0 || rows % (2 * heads) != 0)
    fail(Errc::kInvalidArgument, "{}: {}: {} rows do not divide into {} heads of pairs", file, pair.target,
         rows, heads);
  const int64_t head_dim = rows / heads, half = head_dim / 2;
  Tensor moved = Tensor::zeros(DType::kF32, pair.b.shape());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t paired = row - in_head + 2 * (in_head % half) + in_head / half;
    const auto [source, place] = to == RopeRows::kToGguf ? std::pair(row, paired) : std::pair(paired, row);
    std::copy_n(pair.b.data<float>() + source * rank, rank, moved.data<float>() + place * rank);
  }
  return moved;
}

}  // namespace butterfly::model
