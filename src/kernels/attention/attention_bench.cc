// Attention of one query, of the heads of a group, and of a prompt's rows over 1024 positions of one KV head.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/attention/attention.h"
#include "kernels/simd/target.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kLength = 1024, kPageCount = kLength / kKvPage;

void BM_Attention(benchmark::State& state, KvLayout layout, size_t query_count, float soft_cap) {
  const size_t dim = layout.head_dim;
  std::vector<float> q(kQueriesMax * dim), out(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = random_normal(1, 1, i);
  const Buffer cache = Buffer::allocate(kPageCount * layout.page_bytes());
  for (size_t p = 0; p < kLength; ++p)
    kv_store(layout, cache.data() + p / kKvPage * layout.page_bytes(), p % kKvPage, &q[p % kQueriesMax * dim],
             &q[(p + 1) % kQueriesMax * dim]);
  std::vector<uint32_t> ids(kPageCount);
  for (uint32_t i = 0; i < kPageCount; ++i) ids[i] = i;
  std::vector<AttentionQuery> queries;
  for (size_t m = 0; m < query_count; ++m) queries.push_back({&q[m * dim], &out[m * dim], kLength - 1});
  const Buffer scratch = Buffer::allocate(attention_scratch_bytes(layout));
  const KvPages pages{cache.data(), layout.page_bytes(), ids.data()};
  const AttentionParams params{.scale = 0.125f, .soft_cap = soft_cap};
  for (auto _ : state) {
    attend(layout, params, pages, queries.data(), queries.size(), scratch.data());
    benchmark::DoNotOptimize(out.data());
  }
  // Both products: 2 * length * dim multiply-adds per query.
  const double operations =
      4.0 * kLength * static_cast<double>(dim * query_count) * static_cast<double>(state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(operations / 1e9, benchmark::Counter::kIsRate);
  state.SetLabel(target_name());
}

[[maybe_unused]] const bool kRegistered = [] {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0})
    for (size_t head_dim : {64, 128})
      for (size_t queries : {1, 4, 8, 64})
        for (float cap : {0.0f, 30.0f}) {
          if (cap > 0 && queries != 8) continue;
          const std::string name = "attention/" + std::string(dtype_name(dtype)) +
                                   "/dim:" + std::to_string(head_dim) +
                                   "/queries:" + std::to_string(queries) + (cap > 0 ? "/soft_cap" : "");
          benchmark::RegisterBenchmark(name.c_str(), BM_Attention, KvLayout{dtype, head_dim}, queries, cap)
              ->Unit(benchmark::kMicrosecond);
        }
  return true;
}();

}  // namespace
}  // namespace butterfly::kernels
