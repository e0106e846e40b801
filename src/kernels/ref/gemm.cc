#include "kernels/gemm/gemm.h"

#include <cmath>

#include "kernels/ref/epilogue.h"
#include "kernels/tiles/shards.h"

namespace butterfly::kernels::ref {

namespace {

float chain(const Gemm& job, size_t i, size_t j, size_t begin, size_t end, float acc) {
  for (size_t p = begin; p < end; ++p) acc = std::fma(job.a.at(i, p), job.b.at(p, j), acc);
  return acc;
}

float tree(const Gemm& job, size_t i, size_t j) {
  const Shards shards(job.shard_unit, job.k);
  float sums[kShardsMax];
  for (size_t s = 0; s < shards.count(); ++s)
    sums[s] = chain(job, i, j, shards.begin(s), shards.begin(s + 1), 0);
  return shard_tree({sums, shards.count()});
}

}  // namespace

void gemm(const Gemm& job) {
  for (size_t i = 0; i < job.m; ++i)
    for (size_t j = 0; j < job.n; ++j) {
      const size_t at = i * job.c_stride + j;
      const float sum = job.shard_unit != 0 ? tree(job, i, j)
                                            : chain(job, i, j, 0, job.k, job.accumulate ? job.c[at] : 0.0f);
      finish(job.epilogue, sum, j, at, job.c);
    }
}

}  // namespace butterfly::kernels::ref
