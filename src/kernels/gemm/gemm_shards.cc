// Every shard is a product of its own. Shard i has as many sums waiting before it as i has ones: the first of
// them in C, the others in levels beside it, so that eight shards need three more matrices and no more.
#include "kernels/gemm/gemm_shards.h"

#include <bit>

#include "base/check.h"
#include "kernels/tiles/shards.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_shards.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm/epilogue-inl.h"
#include "kernels/tiles/shards-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_shards(const Gemm& job, ThreadPool*) { ref::gemm(job); }
#else
namespace {

// Where the sums of a level stand: rows `stride` floats apart.
struct Level {
  float* data;
  size_t stride;
};

// A shard is summed: it is added to the levels below it.
struct Fold {
  const Gemm& job;
  Level levels[4];
  size_t level, folds;
  bool finish;  // this was the last one

  void Rows(size_t begin, size_t end) const {
    for (size_t m = begin; m < end; ++m)
      for (size_t i = 0; i < folds; ++i) {
        const Level &from = levels[level - i], &to = levels[level - i - 1];
        float* sums = to.data + m * to.stride;
        if (finish && i + 1 == folds) {
          Map([](VF a, VF b) HWY_ATTR { return TreeResult(hn::Add(a, b)); }, sums, job.n, sums,
              from.data + m * from.stride);
          if (HasEffect(job.epilogue)) FinishRow(job.epilogue, sums, 0, m * to.stride, job.n, sums);
        } else {
          Map([](VF a, VF b) HWY_ATTR { return hn::Add(a, b); }, sums, job.n, sums,
              from.data + m * from.stride);
        }
      }
  }
};

}  // namespace

void run_shards(const Gemm& job, ThreadPool* pool) {
  static_assert(kShardsMax == 8);
  const Shards shards(job.shard_unit, job.k);
  thread_local Buffer buffer;
  const auto extra = static_cast<size_t>(std::countr_zero(shards.count()));  // levels beside C
  const size_t bytes = extra * job.m * job.n * sizeof(float);
  if (buffer.size() < bytes) buffer = Buffer::allocate(bytes);
  auto* memory = reinterpret_cast<float*>(buffer.data());
  Fold fold{job, {{job.c, job.c_stride}}, 0, 0, false};
  for (size_t i = 1; i <= extra; ++i) fold.levels[i] = {memory + (i - 1) * job.m * job.n, job.n};
  for (size_t i = 0; i < shards.count(); ++i) {
    const size_t begin = shards.begin(i);
    fold.level = static_cast<size_t>(std::popcount(i));
    fold.folds = static_cast<size_t>(std::countr_one(i));
    fold.finish = i + 1 == shards.count();
    Gemm part = job;
    part.shard_unit = 0;
    part.k = shards.begin(i + 1) - begin;
    part.a.data += begin * (job.a.transposed ? job.a.stride : 1);
    part.b.data += begin * (job.b.transposed ? 1 : job.b.stride);
    part.c = fold.levels[fold.level].data;
    part.c_stride = fold.levels[fold.level].stride;
    if (shards.count() > 1) part.epilogue = {};
    if (pool == nullptr) {
      gemm(part);
      fold.Rows(0, job.m);
    } else {
      gemm(part, *pool);
      if (fold.folds > 0)
        pool->parallel_for(job.m, 1, [&](size_t first, size_t last) { fold.Rows(first, last); });
    }
  }
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_shards);
}  // namespace

void gemm_shards(const Gemm& job, ThreadPool* pool) {
  BF_CHECK(!job.accumulate) << "a sum of shards starts from zero";
  if (job.m == 0 || job.n == 0) return;
  HWY_DYNAMIC_DISPATCH(run_shards)(job, pool);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
